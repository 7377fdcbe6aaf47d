"""Runs a training script with a stopwatch in its loop, which knows nothing of tfhet: `stopwatch.py SCRIPT ...`.

It notes when the script, or Keras for it, asks an iterator of tf.data for an element and when it has it, and when
Keras begins and ends batches, epochs and evaluations. The notes go to `stopwatch-RANK.json` in the output directory.
In a graph, where Keras asks, operations of TensorFlow note: a function of Python there would wait for a thread.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

Note = tuple[float, str, str]
"""Seconds since 1970, the kind of the moment, and where the script was."""
HOOKS = {
    "on_train_batch_end": "batch_end",
    "on_epoch_begin": "epoch_begin",
    "on_test_begin": "test_begin",
    "on_test_end": "test_end",
}


class Stopwatch:
    """The notes of one process."""

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._in_graphs: Any = None
        """Queue of pairs of seconds: when a graph asked, and when it had the element. Made late, since a script may
        set up TensorFlow's devices and threads only before the first tensor."""

    def notes(self) -> list[Note]:
        """All notes so far, in the order of time. To be called once."""
        pairs = self._in_graphs.dequeue_many(self._in_graphs.size()).numpy().tolist() if self._in_graphs else ()
        graphs = [(at_s, kind, "graph") for pair in pairs for at_s, kind in zip(pair, ("ask", "got"), strict=True)]
        return sorted([*self._notes, *graphs], key=lambda note: note[0])

    def attach(self) -> None:
        """Puts the stopwatch into TensorFlow's iterators and Keras' list of callbacks."""
        from tensorflow.python.data.ops.iterator_ops import OwnedIterator

        ask: Callable[[Any], Any] = OwnedIterator._next_internal

        def timed(iterator: Any) -> Any:
            if not tf.executing_eagerly():
                return self._ask_in_graph(ask, iterator)
            site = _site()
            self._note("ask", site)
            element = ask(iterator)
            self._note("got", site)
            return element

        OwnedIterator._next_internal = timed
        try:
            from keras.src.callbacks import CallbackList
        except ImportError:
            CallbackList = tf.keras.callbacks.CallbackList
        for name, kind in HOOKS.items():
            setattr(CallbackList, name, self._noting(getattr(CallbackList, name), kind))

    def _note(self, kind: str, site: str) -> None:
        self._notes.append((time.time(), kind, site))

    def _noting(self, method: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def noting(*arguments: Any, **named: Any) -> Any:
            self._note(kind, "keras")
            return method(*arguments, **named)

        return noting

    def _ask_in_graph(self, ask: Callable[[Any], Any], iterator: Any) -> Any:
        if not self._notes:  # a function of a data set, which is traced before the training begins
            return ask(iterator)
        if self._in_graphs is None:
            with tf.init_scope():
                self._in_graphs = tf.queue.FIFOQueue(-1, [tf.float64], [[2]])
        asked_s = tf.timestamp()
        with tf.control_dependencies([asked_s]):
            element = ask(iterator)
        with tf.control_dependencies(tf.nest.flatten(element)):
            self._in_graphs.enqueue(tf.stack([asked_s, tf.timestamp()]))
        return element


def _site() -> str:
    """File and line of the script that asks."""
    frame = sys._getframe(2)
    while frame.f_back is not None and "/tensorflow/" in frame.f_code.co_filename:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def main() -> None:
    """Runs the script as `python SCRIPT ARGUMENTS...` would."""
    stopwatch = Stopwatch()
    stopwatch.attach()
    place, rank = Path(os.environ["SM_OUTPUT_DATA_DIR"]), os.environ.get("HOROVOD_RANK", "0")
    atexit.register(lambda: (place / f"stopwatch-{rank}.json").write_text(json.dumps(stopwatch.notes())))
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
