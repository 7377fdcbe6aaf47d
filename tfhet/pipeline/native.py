"""Native execution of a declared pipeline: batches as NumPy arrays, by the compiled core, without a framework.

    maker = BatchMaker(pipeline)
    order = maker.order(epoch=0)
    (images, labels), ids = maker.make(order[0:64], epoch=0)

Any process makes the same batch of the same places; threads may share a maker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tfhet.clock import SYSTEM, thread_busy, thread_cpu
from tfhet.errors import DataError, UsageError
from tfhet.kernels import file_wait_us
from tfhet.pipeline.order import EpochOrder
from tfhet.pipeline.pipeline import IMAGE, LABEL, Pipeline, label_spec
from tfhet.pipeline.read_ahead import ReadAhead
from tfhet.source import ArraySpec, IndexedSource, ids_at, source_as_json, source_from_json
from tfhet.stages import CompiledChain, text

log = logging.getLogger("tfhet")

_UNSUPPORTED = ("interleave", "cache", "repeat", "record_parameters")
"""Fields of a pipeline that only tf.data has."""


TIMED_EACH = 16
"""Of so many batches the reading of one is timed, which takes about 40 microseconds."""
LOCK_S = 0.05
"""Seconds of a batch for which its threads may wait for Python's lock, which is no wait for a network."""


class ReadTime:
    """Time of the reading of examples. The first batch, which may wait for the core's build, does not count."""

    def __init__(self, is_remote: bool) -> None:
        self._is_remote, self._lock, self._calls = is_remote, threading.Lock(), 0
        self._examples, self._waited_s, self._cpu_s = 0, 0.0, 0.0

    @contextlib.contextmanager
    def of(self, examples: int) -> Iterator[None]:
        with self._lock:
            self._calls += 1
            is_timed = self._calls % TIMED_EACH == 2
        if not is_timed:
            yield
            return
        began_s, cpu_s, busy_s = SYSTEM.monotonic(), thread_cpu(), thread_busy()
        yield
        cpu_s, busy_s, taken_s = thread_cpu() - cpu_s, thread_busy() - busy_s, SYSTEM.monotonic() - began_s
        with self._lock:
            self._examples += examples
            self._waited_s += max(0.0, taken_s - busy_s - LOCK_S) if self._is_remote else 0.0
            self._cpu_s += cpu_s

    def per_example_us(self) -> tuple[float, float]:
        """Returns microseconds of an example on a CPU and waiting for files or a network, and those on a CPU."""
        cpu_us, waited_us = (1e6 * total_s / max(1, self._examples) for total_s in (self._cpu_s, self._waited_s))
        return cpu_us + (waited_us if self._is_remote else file_wait_us()), cpu_us


class MadeBatch(NamedTuple):
    """A batch of examples."""

    value: Any
    """Images, uint8 or float32 [n, height, width, channels]; with labels [n, ...], if the source has them, a tuple."""
    ids: np.ndarray
    """int64 [n]."""


class BatchMaker:
    """Makes batches of a pipeline by the places of their examples in the source."""

    def __init__(
        self, pipeline: Pipeline, *, threads: int = 1, allocate: Callable[[int], np.ndarray] | None = None
    ) -> None:
        """
        Args:
            threads: Number of threads that work on one batch.
            allocate: Returns memory for the images of a batch, uint8 [n]; None: new arrays.

        Raises:
            UsageError: The source or a setting needs tf.data.
        """
        self.pipeline, self._threads, self._allocate = pipeline, threads, allocate
        self.source: IndexedSource = checked(pipeline)
        self._sizes = self.source.sizes()
        self._order = functools.lru_cache(maxsize=2)(self._new_order)
        self.chain = CompiledChain(pipeline.image_stages, pipeline.reorder, pipeline.fuse)
        self._bad: dict[int, set[int]] = {}
        """Ids of the bad examples that were left out, by epoch."""
        self._lock = threading.Lock()
        self._ahead = ReadAhead(self.source)
        self._read = ReadTime(bool(getattr(self.source, "is_remote", False)))

    def read_ahead(self, batches: Iterator[np.ndarray]) -> None:
        """Announces the batches that `make` gets next, by the places of their examples, int64 [n]. Batches of a
        remote source are loaded ahead."""
        self._ahead.follow(map(self.ids, batches))

    def expect(self, places: np.ndarray) -> None:
        """Announces one more batch, after those that were announced before and not made."""
        self._ahead.follow(iter([self.ids(places)]), continues=True)

    def __len__(self) -> int:
        """Returns the number of examples of an epoch."""
        return int(self._sizes.sum())

    def order(self, epoch: int) -> EpochOrder:
        """Returns the order of the examples in an epoch. The latest orders are kept."""
        return self._order(epoch)

    def _new_order(self, epoch: int) -> EpochOrder:
        settings = {name: getattr(self.pipeline, name) for name in ("shuffle", "shuffle_splits", "seed")}
        return EpochOrder(self._sizes.tolist(), **settings, epoch=epoch)

    def ids(self, places: np.ndarray) -> np.ndarray:
        """Returns the ids of examples, int64 [n], by their places in the source, int64 [n]."""
        return ids_at(places, self._sizes)

    def make(self, places: np.ndarray, epoch: int) -> MadeBatch:
        """Makes the batch of examples. Bad ones are left out, and named in the log, up to the pipeline's limit.

        Args:
            places: Their places in the source, int64 [n].

        Raises:
            DataError: An example cannot be read or decoded; the message names its file.
        """
        ids = self.ids(places)
        try:
            return MadeBatch(self._made(ids, epoch, self._allocate), ids)
        except (DataError, UsageError) as error:
            good = self._without_bad(ids, epoch, error)
            return MadeBatch(self._made(good, epoch, self._allocate), good)

    def _made(self, ids: np.ndarray, epoch: int, allocate: Callable[[int], np.ndarray] | None = None) -> Any:
        with self._read.of(len(ids)):
            features = self._ahead.load(ids)
        images, labels = features[IMAGE], features.get(LABEL)
        call: dict[str, Any] = {"ids": ids, "seed": self.pipeline.seed, "epoch": epoch, "threads": self._threads}
        if labels is not None:
            call["labels"] = labels
        made, out = self.pipeline.output, None
        if allocate is not None and made.height is not None and made.width is not None and made.example_bytes:
            shape = (len(ids), made.height, made.width, made.channels)
            out = allocate(len(ids) * made.example_bytes).view(made.dtype).reshape(shape)
        return self.chain(images, out=out, **call)

    def part_us(self) -> dict[str, tuple[float, float]]:
        """Returns microseconds of an example in each part of the pipeline so far, with and without waits: of `read`,
        and of each step of compiled stages."""
        steps = {name: (taken_us, taken_us) for name, taken_us in self.chain.step_us().items()}
        return {"read": self._read.per_example_us(), **steps} if steps else {}

    def _without_bad(self, ids: np.ndarray, epoch: int, error: Exception) -> np.ndarray:
        """Returns the ids of the examples of a batch that can be made alone. Raises an error that names a bad one if
        there are more than the pipeline allows, or none is good; `error` if none is bad."""
        faults = {id: fault for id in ids.tolist() if (fault := self._fault(id, epoch)) is not None}
        if not faults:
            raise error
        with self._lock:
            bad = self._bad.setdefault(epoch, set())
            new, bad_before = faults.keys() - bad, len(bad)
            bad |= new
        limit = self.pipeline.max_bad_records
        if bad_before + len(new) > limit or len(faults) == len(ids):
            first = next(iter(faults.values()))
            more = f"; {len(bad)} bad records in epoch {epoch}, and max_bad_records is {limit}" if limit else ""
            raise DataError(f"{first}{more}", first.path, first.offset) from None
        for id in sorted(new):
            log.warning("left out of epoch %d: %s", epoch, faults[id])
        return ids[[id not in faults for id in ids.tolist()]]

    def _fault(self, id: int, epoch: int) -> DataError | None:
        """Returns the error of an example, with its file; None if it can be made."""
        try:
            self._made(np.array([id], np.int64), epoch)
        except DataError as error:
            return error
        except UsageError as error:
            file, offset = self.source.places([id])[0]
            where = f"{file}{f' at byte {offset}' if offset else ''}" if file else f"example {id}"
            return DataError(f"{where} cannot be decoded: {error}", file or None, offset)
        return None


def checked(pipeline: Pipeline) -> IndexedSource:
    """Returns the pipeline's source. Raises UsageError for what only tf.data can run."""
    source = pipeline.source
    if not isinstance(source, IndexedSource) or not source.can_load():
        raise UsageError(f"the source {source.name} of this data can only be read by TensorFlow: use tfhet.distribute")
    defaults = {each.name: each.default for each in dataclasses.fields(Pipeline)}
    for name in _UNSUPPORTED:
        if getattr(pipeline, name) != defaults[name]:
            raise UsageError(
                f"{name} is for pipelines that tf.data runs (tfhet.distribute): omit it"
                + ("; shuffle=True reads all examples in a new order" if name == "interleave" else "")
            )
    return source


def is_native(pipeline: Pipeline) -> bool:
    """Whether tf.data cannot run a pipeline: it has a full shuffle, or a source without TensorFlow's methods."""
    source = pipeline.source
    return pipeline.shuffle is True or not (hasattr(source, "parse") and getattr(source, "can_stream", True))


def runs_natively(pipeline: Pipeline) -> bool:
    """Whether `BatchMaker` can run a pipeline."""
    try:
        checked(pipeline)
    except UsageError:
        return False
    return True


def as_json(pipeline: Pipeline) -> dict[str, Any]:
    """Returns a pipeline as JSON values, for other hosts. Raises UsageError for a source that they cannot make."""
    source = checked(pipeline)
    fields = {each.name: getattr(pipeline, each.name) for each in dataclasses.fields(pipeline)}
    return {**fields, "stages": text(pipeline.image_stages), "source": source_as_json(source)}


def from_json(document: Mapping[str, Any]) -> Pipeline:
    """Makes the pipeline of `as_json`."""
    return Pipeline(**{**document, "source": source_from_json(document["source"])})


def differences(pipeline: Pipeline) -> dict[str, Any]:
    """Returns what decides the content of an epoch, by name, as short JSON values: two runs that agree about it read
    the same examples in the same order."""
    fields = {name: getattr(pipeline, name) for name in ("seed", "shuffle", "shuffle_splits", "reorder")}
    return {"data": pipeline.source.fingerprint(), "stages": text(pipeline.image_stages), **fields}


def element_spec(pipeline: Pipeline) -> tuple[ArraySpec, ...]:
    """Returns the specs of the arrays of a batch."""
    made = pipeline.output
    images = ArraySpec((None, made.height, made.width, made.channels), made.dtype)
    labels = label_spec(pipeline.source.spec, pipeline.placed())
    return (images,) if labels is None else (images, labels)
