"""The profile of a pipeline that runs natively: of reading and of each step, on one thread, without TensorFlow.

For every batch the source is read once. Each beginning of the chain runs on what was read, and each step alone on the
result of the steps before it, so all parts have the same examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import DataError, UsageError
from tfhet.events import Observer, ignore
from tfhet.extras import has
from tfhet.kernels import Contents
from tfhet.pipeline import IMAGE, LABEL, BatchMaker, Pipeline, is_native, relabelled, runs_natively
from tfhet.profile.effort import Effort
from tfhet.profile.repeated import PartTime, affordable, repeated
from tfhet.profile.result import NATIVE, Cost, Profile
from tfhet.profile.spans import spans_of
from tfhet.stages import ImageSpec, Program

READING = "read"


def is_measured_natively(target: Any) -> bool:
    """Whether a target is a pipeline that tf.data cannot run, or that runs natively where TensorFlow is missing."""
    if not isinstance(target, Pipeline):
        return False
    return is_native(target) or (runs_natively(target) and not has("tensorflow"))


def measure_native(
    pipeline: Pipeline, effort: Effort, *, observer: Observer = ignore, clock: Clock = SYSTEM
) -> Profile:
    """Returns the profile of a pipeline that runs natively. Raises UsageError if it needs tf.data or has no examples,
    and DataError for an example that cannot be read."""
    parts = _Parts(pipeline, clock)
    examples = affordable(parts.run, parts.batch_size, effort, clock)
    samples = repeated(parts.names, parts.run, examples, effort, observer, clock)
    costs = (
        Cost(name, *each, round(size.total / parts.examples), size.dtype, pipeline.batch_size, NATIVE)
        for name, each, size in zip(parts.names, samples, parts.sizes, strict=True)
    )
    return Profile("pipeline", tuple(costs), examples)


@dataclass
class _Size:
    """Bytes of all examples after a part."""

    total: int = 0
    dtype: str = ""


class Chain:
    """A part of a pipeline's stages, with memory for its result."""

    def __init__(self, pipeline: Pipeline, begin: int, end: int, batch_size: int) -> None:
        placed, specs = pipeline.placed(), pipeline.specs()
        self._placed, self._seed = placed[begin:end], pipeline.seed
        self._program = Program.of(self._placed, specs[begin], pipeline.fuse)
        self._relabels = any(each.stage.relabels for each in self._placed)
        self._memory = _memory(specs[end], batch_size)

    def __call__(self, images: Any, labels: Any, ids: np.ndarray, epoch: np.ndarray) -> tuple[np.ndarray, Any]:
        """Returns the images of a batch, in memory that the next call overwrites, and its labels."""
        draws = self._relabels and labels is not None
        memory = None if self._memory is None else self._memory[: len(ids)]
        made, drawn = self._program.run(images, ids, self._seed, epoch, 1, memory, wants_draws=draws)
        if draws:
            labels = relabelled(labels, [placed for placed, _ in drawn], [values for _, values in drawn])
        return made, labels


def _memory(spec: ImageSpec, batch_size: int) -> np.ndarray | None:
    if spec.height is None or spec.width is None:
        return None
    return np.empty((batch_size, spec.height, spec.width, spec.channels), spec.dtype)


class _Parts:
    """Measures the parts of a pipeline; every run continues in the epochs where the last one ended."""

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        self._maker, self._clock, spans = BatchMaker(pipeline), clock, spans_of(pipeline)
        self.names = [READING, *(span.name for span in spans)]
        self.sizes, self.examples = [_Size() for _ in self.names], 0
        self.batch_size = min(pipeline.batch_size, len(self._maker))
        if not self.batch_size:
            raise UsageError(f"the source {pipeline.source.name} has no examples: a profile needs some")
        size = self.batch_size
        self._upto = [Chain(pipeline, 0, span.end, size) for span in spans]
        self._alone = [Chain(pipeline, span.begin, span.end, size) for span in spans]
        self._batches = self._endless()

    def _endless(self) -> Iterator[tuple[np.ndarray, int]]:
        """Yields places and epoch of whole batches."""
        epoch = 0
        while True:
            order = self._maker.order(epoch)
            for begin in range(0, len(order) - self.batch_size + 1, self.batch_size):
                yield order[begin : begin + self.batch_size], epoch
            epoch += 1

    def run(self, examples: int) -> list[PartTime]:
        """Returns the times of the parts over about so many examples."""
        total_s, measured = np.zeros((2, len(self.names))), 0
        for _ in range(max(1, round(examples / self.batch_size))):
            places, epoch = next(self._batches)
            ids = self._maker.ids(places)
            try:
                total_s += self._batch_s(ids, epoch)
            except (DataError, UsageError):
                ids = self._maker.make(places, epoch).ids  # without bad examples, or an error that names the file
                total_s += self._batch_s(ids, epoch)
            measured += len(ids)
        (reading_us, *cumulative_us), (_, *alone_us) = (1e6 / measured * total_s).tolist()
        return [PartTime(reading_us), *map(PartTime, cumulative_us, alone_us)]

    def _batch_s(self, ids: np.ndarray, epoch: int) -> np.ndarray:
        """Returns the CPU seconds of all parts for a batch, float64 [2, parts]: up to each part, and alone."""
        cpu, number = self._clock.cpu, np.array(epoch)
        found_s = np.zeros((2, len(self.names)))
        began_s = cpu()
        features = self._maker.source.load(ids)
        found_s[0] += cpu() - began_s
        given = images, labels = features[IMAGE], features.get(LABEL)
        self._add_size(0, images, labels)
        for index, (upto, alone) in enumerate(zip(self._upto, self._alone, strict=True), 1):
            began_s = cpu()
            made = upto(*given, ids, number)
            found_s[0, index] += cpu() - began_s
            began_s = cpu()
            alone(images, labels, ids, number)
            found_s[1, index] += cpu() - began_s
            images, labels = made
            self._add_size(index, images, labels)
        self.examples += len(ids)
        return found_s

    def _add_size(self, index: int, images: Any, labels: Any) -> None:
        size, is_array = self.sizes[index], isinstance(images, np.ndarray)
        size.dtype = images.dtype.name if is_array else "string"
        size.total += images.nbytes if is_array else int(Contents.of(images).lengths.sum())
        size.total += 0 if labels is None else np.asarray(labels).nbytes
