"""tf.data under Keras and in custom loops. It needs tfhet in the script's environment: its compiled operation notes the
deliveries inside of TensorFlow's graphs, where no Python runs.

Keras states which passes train. In a custom loop, a pass is for training if a Keras optimizer steps in it.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tfhet.watching.inside.readers import NotedIterable
from tfhet.watching.inside.recorder import END, Pass, Recorder, failed, noted, now
from tfhet.watching.inside.tf_graph import GraphClock, Times

if TYPE_CHECKING:
    from tfhet.steps import Note

TRAINING, VALIDATION = "training", "validation"


class _Context(threading.local):
    kind = ""
    """What Keras does in this thread."""


class _WatchedPass:
    """A pass over a data set, whose kind may be known later."""

    def __init__(self, recorder: Recorder, reader: int):
        self.begun = Pass(recorder, reader, _context.kind)
        self.is_in_python = False
        """Whether Python requests the batches: then it notes them, with its own part of the time."""
        self.began_s, self.since_s = now(), 0.0
        """When its iterator was made, and the seconds for it."""
        self.is_known = bool(_context.kind) or not _optimizers
        self._steps, self._recorder = _steps(), recorder

    def decide(self, is_over: bool) -> None:
        """Finds out whether an optimizer has stepped since it began."""
        if self.is_known:
            return
        trains = _steps() > self._steps
        if trains or is_over:
            self.is_known = True
            kind = TRAINING if trains else VALIDATION
            self._recorder.describe({"kind": "kind", "pass": self.begun.number, "of": kind})


class _WatchedSet:
    """A data set of the script. noted: its `NotedDataset`, or None before its first pass."""

    def __init__(self, dataset: Any, ops: Any):
        from tfhet.steps import NotedDataset

        self.noted = NotedDataset(dataset, ops)
        self.facts = {"element_spec": str(dataset.element_spec)[:200], "cardinality": int(dataset.cardinality())}
        self.begun: deque[_WatchedPass] = deque()
        """Passes whose first batch was not noted yet."""
        self.current: _WatchedPass | None = None

    def add(self, recorder: Recorder, notes: Iterable[Note], times: Times) -> None:
        for note in notes:
            while note.index == 0 and self.begun and self.begun[0].began_s <= note.asked_s:
                self.current = self.begun.popleft()  # the latest: Keras makes iterators that it does not read
            if self.current is not None and not self.current.is_in_python:
                examples = END if note.examples is None else note.examples
                recorder.add(self.current.begun, *times.around(note.asked_s, note.delivered_s), examples)


_context = _Context()
_optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
_sets: list[_WatchedSet] = []
_latest: list[_WatchedPass] = []
_clocks: list[GraphClock] = []
"""The clock of the graphs, once one is traced."""


def on_datasets(module: Any) -> None:
    """Notes the passes over data sets that the script, or Keras, iterates over."""
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.eager import context

    iterate = module.DatasetV2.__iter__

    @functools.wraps(iterate)
    def __iter__(dataset: Any) -> Any:
        recorder = Recorder.here()
        if recorder is None or getattr(dataset, "_tfhet_noted", None) is not None:
            return iterate(dataset)
        try:
            began_s = now()
            watched, begun = _begin(recorder, dataset)
        except Exception as error:
            failed("tf.data (is tfhet installed in the environment of the script?)", error)
            return iterate(dataset)
        iterator = iter(watched) if watched is not None else iterate(dataset)
        if begun is not None:
            begun.since_s = now() - began_s
            iterator._tfhet_pass = begun
        return iterator

    module.DatasetV2.__iter__ = __iter__
    request = iterator_ops.OwnedIterator.__next__

    @functools.wraps(request)
    def __next__(self: Any) -> Any:
        begun: _WatchedPass | None = self.__dict__.get("_tfhet_pass")
        if not context.executing_eagerly():  # a tf.function is traced
            return _in_graph(lambda: request(self))
        if begun is None:
            return request(self)
        begun.is_in_python = True
        since_s, begun.since_s = begun.since_s, 0.0
        try:
            return noted(lambda: request(self), lambda _: begun.begun, since_s)
        except StopIteration:
            begun.decide(is_over=True)
            raise

    get_next = iterator_ops.OwnedIterator.get_next  # Keras from 3.13 on

    @functools.wraps(get_next)
    def in_keras(self: Any) -> Any:
        return get_next(self) if context.executing_eagerly() else _in_graph(lambda: get_next(self))

    iterator_ops.OwnedIterator.__next__, iterator_ops.OwnedIterator.get_next = __next__, in_keras


def _in_graph(request: Callable[[], Any]) -> Any:
    """Requests a batch in a graph that is traced: in the training step of Keras with the clock around it."""
    import tensorflow as tf

    if _context.kind != TRAINING or tf.distribute.has_strategy():
        return request()
    try:
        if not _clocks:
            _clocks.append(GraphClock())
    except Exception as error:
        failed("the clock in the graph of Keras", error)
        return request()
    return _clocks[0].timed(request)


def _begin(recorder: Recorder, dataset: Any) -> tuple[Any, _WatchedPass | None]:
    import tensorflow as tf

    if not tf.executing_eagerly():
        return None, None
    found: _WatchedSet | None = dataset.__dict__.get("_tfhet_watched")
    if found is None:
        from tfhet import native

        if _take not in recorder.before_write:
            recorder.before_write.append(_take)
        dataset._tfhet_watched = found = _WatchedSet(dataset, native.ops("deliveries"))
        _sets.append(found)
    for each in _latest:
        each.decide(is_over=False)
    begun = _WatchedPass(recorder, recorder.reader("tf.data", found.facts))
    _latest[:] = [begun]
    found.begun.append(begun)
    return found.noted.dataset, begun


def _take() -> None:
    recorder = Recorder.here()
    if recorder is not None:
        for each in _latest:
            each.decide(is_over=False)
        notes = [(watched, watched.noted.take()) for watched in list(_sets)]
        times = _clocks[0].read() if _clocks else Times([])
        for watched, new in notes:
            watched.add(recorder, new, times)


def _steps() -> int:
    """Number of steps of all optimizers of Keras."""
    total = 0
    for each in list(_optimizers):
        try:
            total += int(each.iterations.numpy())
        except Exception:  # it is not built, or symbolic
            continue
    return total


def on_optimizer(module: Any) -> None:
    kind = getattr(module, "BaseOptimizer", None) or getattr(module, "_BaseOptimizer", None)
    if kind is None or hasattr(kind, "_tfhet_watched"):  # of Keras 3, and of Keras 2
        return
    kind._tfhet_watched = True
    init = kind.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        _optimizers.add(self)

    kind.__init__ = __init__


def on_keras(module: Any) -> None:
    """Notes what Keras does with the data that it iterates over; with JAX and PyTorch, also the batches."""
    names = ("TensorFlowTrainer", "JAXTrainer", "TorchTrainer", "Model")
    trainer = next(getattr(module, name) for name in names if hasattr(module, name))
    for name, kind in (("fit", TRAINING), ("evaluate", VALIDATION), ("predict", VALIDATION)):
        setattr(trainer, name, _in_context(getattr(trainer, name), kind))
    for name in ("JAXEpochIterator", "TorchEpochIterator"):
        if hasattr(module, name):
            iterators = getattr(module, name)
            iterators._get_iterator = _noted_batches(iterators._get_iterator)


def _noted_batches(method: Any) -> Any:
    @functools.wraps(method)
    def batches(self: Any) -> Any:
        found = method(self)
        if Recorder.here() is None:
            return found
        facts = {"type": type(self.data_adapter).__name__, "batches": self.data_adapter.num_batches}
        return NotedIterable(found, "Keras", facts, _context.kind)

    return batches


def _in_context(method: Any, kind: str) -> Any:
    @functools.wraps(method)
    def within(*args: Any, **kwargs: Any) -> Any:
        before, _context.kind = _context.kind, kind
        try:
            return method(*args, **kwargs)
        finally:
            _context.kind = before

    return within
