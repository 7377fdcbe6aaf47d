"""Readers of other packages, and iterables that the script marks: each pass over one is noted at its outermost end."""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfhet.watching.inside.recorder import Pass, Recorder, noted, now
from tfhet.watching.inside.stacks import sample_requests, write_samples
from tfhet.watching.inside.torch_loader import settings

PART_SCALE = 10
"""Number of samples for a microsecond of an example."""


class NotedIterator:
    """An iterator whose deliveries are notes. make: makes the iterator at the first request, or at once."""

    def __init__(self, iterator: Iterator[Any], name: str, facts: dict[str, Any], kind: str = "", since_s: float = 0.0):
        self._iterator, self._name, self._facts, self._kind, self._since_s = iterator, name, facts, kind, since_s
        self._pass: Pass | None = None

    def __iter__(self) -> NotedIterator:
        return self

    def __next__(self) -> Any:
        since_s, self._since_s = self._since_s, 0.0
        return noted(self._iterator.__next__, self._begin, since_s)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._iterator, name)

    def _begin(self, recorder: Recorder) -> Pass:
        if self._pass is None:
            self._pass = Pass(recorder, recorder.reader(self._name, self._facts), self._kind)
            if not self._facts.get("num_workers"):
                sample_requests(recorder)
        return self._pass


class NotedIterable:
    """An iterable each of whose passes is noted; everything else is the iterable's own."""

    def __init__(self, iterable: Iterable[Any], name: str, facts: dict[str, Any], kind: str = ""):
        self._iterable, self._name, self._facts, self._kind = iterable, name, facts, kind

    def __iter__(self) -> Iterator[Any]:
        began_s = now()
        iterator = iter(self._iterable)
        return NotedIterator(iterator, self._name, self._facts, self._kind, now() - began_s)

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._iterable, name)


def marked(iterable: Iterable[Any], training: bool) -> NotedIterable:
    """The same iterable; its passes are noted as passes over training data, or over validation data."""
    kind = "training" if training else "validation"
    facts = {"type": type(iterable).__name__}
    if type(iterable).__module__.startswith("torch.utils.data") and hasattr(iterable, "num_workers"):
        facts = settings(iterable)
    return NotedIterable(iterable, f"{type(iterable).__name__}, marked by the script", facts, kind)


def on_tfhet(module: Any) -> None:
    """tfhet's own loaders, which state whether they train, and the cost of each stage."""

    def kind_of(loader: Any) -> str:
        recorder = Recorder.here()
        if recorder is not None and loader._training:
            _loaders.add(loader)
            if _write_parts not in recorder.before_write:
                recorder.before_write.append(_write_parts)
        return "training" if loader._training else "validation"

    _wrap(module.Loader, "tfhet", kind_of=kind_of)


_loaders: weakref.WeakSet[Any] = weakref.WeakSet()
"""Loaders of this process that the script trains with."""


def _write_parts() -> None:
    """Writes the cost of each part of a loader's pipeline, as samples of stacks are written."""
    for loader in list(_loaders):
        if not (parts := loader.part_us()):
            continue
        counts = {name: round(PART_SCALE * taken_us) for name, (taken_us, _) in parts.items()}
        waited = {name: round(PART_SCALE * (taken_us - cpu_us)) for name, (taken_us, cpu_us) in parts.items()}
        write_samples("core", os.getppid(), counts, counts, waited, "-core")


def on_accelerate(module: Any) -> None:
    """Loaders of accelerate fetch a batch ahead: the script's own requests are those to the outer iterator."""
    for name in ("DataLoaderShard", "DataLoaderDispatcher"):
        _wrap(getattr(module, name, None), "DataLoader of accelerate", settings)


def on_datasets(module: Any) -> None:
    _wrap(module.Dataset, "datasets.Dataset")


def on_iterable_datasets(module: Any) -> None:
    _wrap(module.IterableDataset, "datasets.IterableDataset")


def on_ray(module: Any) -> None:
    """Iterables over batches of Ray Data, which Ray Train's workers read."""
    for name in ("iter_batches", "iter_torch_batches", "iter_tf_batches"):
        method = getattr(module.DataIterator, name, None)
        if method is not None:
            setattr(module.DataIterator, name, _of_batches(method, name))


def _of_batches(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def batches(*args: Any, **kwargs: Any) -> Any:
        return NotedIterable(method(*args, **kwargs), f"Ray Data, {name}", {"batch_size": kwargs.get("batch_size")})

    return batches


def on_dali(module: Any) -> None:
    """Iterators of DALI, whose plug-ins derive a class with `__next__` from the base class."""
    base = module._DaliBaseIterator
    before = base.__init_subclass__

    def __init_subclass__(cls: Any, **kwargs: Any) -> None:
        before(**kwargs)
        if "__next__" in cls.__dict__:
            _wrap_next(cls, "DALI")

    base.__init_subclass__ = classmethod(__init_subclass__)
    for each in base.__subclasses__():
        if "__next__" in each.__dict__:
            _wrap_next(each, "DALI")


def _wrap(
    kind: Any,
    name: str,
    facts: Callable[[Any], dict[str, Any]] | None = None,
    kind_of: Callable[[Any], str] = lambda reader: "",
) -> None:
    """Notes the passes that begin with `__iter__` of a class. kind_of: see `Pass`."""
    if kind is None or "__iter__" not in kind.__dict__:
        return
    iterate = kind.__iter__

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Any:
        if Recorder.here() is None:
            return iterate(self)
        found = facts(self) if facts else {"type": type(self).__name__}
        return NotedIterator(iterate(self), name, found, kind_of(self))

    kind.__iter__ = __iter__


def _wrap_next(kind: Any, name: str) -> None:
    """Notes the deliveries of a class that is its own iterator; a pass ends where it raises StopIteration."""
    request = kind.__next__

    @functools.wraps(request)
    def __next__(self: Any) -> Any:
        def begin(recorder: Recorder) -> Pass:
            begun: Pass | None = self.__dict__.get("_tfhet_pass")
            if begun is None:
                facts = {"batch_size": getattr(self, "batch_size", None), "type": kind.__name__}
                self._tfhet_pass = begun = Pass(recorder, recorder.reader(name, facts), "")
            return begun

        if sys._getframe(1).f_code.co_name == "__init__":  # the iterator prepares its first batch
            return request(self)
        try:
            return noted(lambda: request(self), begin)
        except StopIteration:
            self.__dict__.pop("_tfhet_pass", None)
            raise

    kind.__next__ = __next__
