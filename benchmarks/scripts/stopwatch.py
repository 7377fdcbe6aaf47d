"""Runs a training script with a stopwatch in its loop, which knows nothing of tfhet: `stopwatch.py SCRIPT ...`.

It notes when the script, or Keras for it, asks an iterator of tf.data for an element and when it has it, and when
Keras begins and ends batches, epochs and evaluations. The notes go to `stopwatch-RANK.json` in the output directory.
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

Note = tuple[float, str, str]
"""Seconds on the monotonic clock, the kind of the moment, and where the script was."""
HOOKS = {
    "on_train_batch_end": "batch_end",
    "on_epoch_begin": "epoch_begin",
    "on_test_begin": "test_begin",
    "on_test_end": "test_end",
}


def attach(notes: list[Note]) -> None:
    """Puts the stopwatch into TensorFlow's iterators and Keras' list of callbacks."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    ask: Callable[[Any], Any] = OwnedIterator._next_internal

    def note(kind: str, site: str) -> Any:
        notes.append((time.monotonic(), kind, site))
        return np.int64(0)

    def timed(iterator: Any) -> Any:
        if tf.executing_eagerly():
            site = _site()
            note("ask", site)
            element = ask(iterator)
            note("got", site)
            return element
        if not notes:  # a function of a data set, which is traced before the training begins
            return ask(iterator)
        # In a graph, where Keras asks: the notes are operations before and after.
        with tf.control_dependencies([tf.numpy_function(lambda: note("ask", "graph"), [], tf.int64)]):
            element = ask(iterator)
        with tf.control_dependencies(tf.nest.flatten(element)):
            got = tf.numpy_function(lambda: note("got", "graph"), [], tf.int64)
        with tf.control_dependencies([got]):
            return tf.nest.map_structure(tf.identity, element)

    OwnedIterator._next_internal = timed
    try:
        from keras.src.callbacks import CallbackList
    except ImportError:
        CallbackList = tf.keras.callbacks.CallbackList
    for name, kind in HOOKS.items():
        setattr(CallbackList, name, _noting(getattr(CallbackList, name), kind, note))


def _noting(method: Callable[..., Any], kind: str, note: Callable[[str, str], Any]) -> Callable[..., Any]:
    def noting(*arguments: Any, **named: Any) -> Any:
        note(kind, "keras")
        return method(*arguments, **named)

    return noting


def _site() -> str:
    """File and line of the script that asks."""
    frame = sys._getframe(2)
    while frame.f_back is not None and "/tensorflow/" in frame.f_code.co_filename:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def main() -> None:
    """Runs the script as `python SCRIPT ARGUMENTS...` would."""
    notes: list[Note] = []
    attach(notes)
    place, rank = Path(os.environ["SM_OUTPUT_DATA_DIR"]), os.environ.get("HOROVOD_RANK", "0")
    atexit.register(lambda: (place / f"stopwatch-{rank}.json").write_text(json.dumps(notes)))
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
