"""Measures parts in rounds: every prefix of the pipeline, and every part alone on elements in memory.

Iterators live through all rounds. A
run begins and ends when the process is idle with full buffers, so its CPU time is of exactly the drawn examples. All
threads share one core, because waking threads on other cores costs a map over single elements 20 to 100 us at random
(TF 2.15.1).
"""

from __future__ import annotations

import collections
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.events import Observer, ignore
from tfhet.planes import cpus
from tfhet.profile.effort import DEFAULT, Effort
from tfhet.profile.parts import PipelinePart
from tfhet.profile.repeated import PartTime, repeated
from tfhet.profile.result import Cost, Profile

HELD_BYTES = 4 << 20
"""Bytes of elements kept in memory to measure a part alone."""
WINDOW_BYTES = 1 << 19
"""Bytes of single elements drawn together, which fit into the nearest cache."""
LEAST_ELEMENTS = 8
"""Minimum elements of the largest part in a run."""
PROBE_CPU_S = 0.2
"""Minimum CPU seconds of the run that estimates the cost of an example."""
REST_S = 0.005
"""Seconds between two looks at the process."""
REST_CALM = 4
"""Consecutive looks without work after which the process is idle: its threads may wait for a core during one."""
REST_POLLS = 2000


class _Case:
    """A data set whose elements are timed."""

    def __init__(self, dataset: tf.data.Dataset, examples: int, window: int):
        """examples: number in an element. window: number of single examples to draw together."""
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        options.threading.max_intra_op_parallelism = 1
        options.autotune.enabled = False
        # drawing single elements one by one would cost more than most parts
        self._window = window if examples == 1 else 1
        self._dataset = (dataset.window(self._window) if self._window > 1 else dataset).with_options(options)
        self._per_draw = examples * self._window
        self._iterator: Any = None

    def cpu_us(self, examples: int, clock: Clock, warm: int = 2) -> float:
        """Returns CPU microseconds per example over about `examples`; draws `warm` elements before the first run."""
        draws = max(1, round(examples / self._per_draw))
        if self._iterator is None:
            self._iterator = iter(self._dataset)
            _draw(self._iterator, -(-warm // self._window))
        start = _rested(clock)
        _draw(self._iterator, draws)
        return (_rested(clock) - start) / (draws * self._per_draw) * 1e6


@dataclass
class _Row:
    part: PipelinePart
    cost: Cost
    upto: _Case
    alone: _Case | None = None
    idle: _Case | None = None
    warm: tuple[int, int] = (0, 0)
    """Elements that `alone` and `idle` draw first, to fill the memory."""

    def times(self, examples: int, clock: Clock) -> PartTime:
        cumulative_us = self.upto.cpu_us(examples, clock)
        if self.alone is None or self.idle is None:
            return PartTime(cumulative_us)
        alone_us = self.alone.cpu_us(examples, clock, self.warm[0])
        return PartTime(cumulative_us, alone_us - self.idle.cpu_us(examples, clock, self.warm[1]))

    @property
    def element_bytes(self) -> int:
        return self.cost.bytes_per_example * self.part.examples


def _rested(clock: Clock) -> float:
    """Returns the CPU seconds of the process once its threads are idle and its buffers full."""
    before, calm = clock.cpu(), 0
    for _ in range(REST_POLLS):
        clock.sleep(REST_S)
        now = clock.cpu()
        calm = calm + 1 if now - before < REST_S * 0.1 else 0
        before = now
        if calm == REST_CALM:
            break
    return before


def _draw(iterator: Any, count: int) -> None:
    # not next(): the Python objects of a window cost more than most parts
    types, shapes = iterator._flat_output_types, iterator._flat_output_shapes
    try:
        for _ in range(count):
            tf.raw_ops.IteratorGetNext(iterator=iterator._iterator_resource, output_types=types, output_shapes=shapes)
    except tf.errors.OutOfRangeError:
        raise UsageError("the data set has no elements: a profile needs some") from None


def measure(
    name: str,
    parts: Sequence[PipelinePart],
    effort: Effort = DEFAULT,
    *,
    observer: Observer = ignore,
    clock: Clock = SYSTEM,
) -> Profile:
    """Measures consecutive parts. The observer gets the events `profile.started` (parts, examples) and `profile.round`
    (done, total). Raises UsageError if the data set has no elements, or the effort is out of range."""
    rows: list[_Row] = []
    for part in parts:
        row = _row(part)
        if rows and part.alone is not None:
            before = rows[-1]
            held = _fitting(HELD_BYTES, before.element_bytes)
            memory = before.part.upto.take(held).cache().repeat()
            row.alone = _Case(part.alone(memory), part.examples, _fitting(WINDOW_BYTES, row.element_bytes))
            window = _fitting(WINDOW_BYTES, before.element_bytes)
            row.idle = _Case(part.idle(memory), before.part.examples, window)
            row.warm = (held + 1) * before.part.examples // part.examples + 1, held + 1
        rows.append(row)
    with _one_core():
        examples = _examples(rows, effort, clock)

        def run(examples: int) -> list[PartTime]:
            return [row.times(examples, clock) for row in rows]

        samples = repeated([part.name for part in parts], run, examples, effort, observer, clock)
    costs = tuple(replace(row.cost, **each._asdict()) for row, each in zip(rows, samples, strict=True))
    return Profile(name, costs, examples)


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Keeps all threads of this process on one core, if the system allows it."""
    cores = cpus.usable()
    cpus.confine(os.getpid(), cores[-1:])
    try:
        yield
    finally:
        cpus.confine(os.getpid(), cores)


def _examples(rows: Sequence[_Row], effort: Effort, clock: Clock) -> int:
    """Returns the number of examples of a run with which all rounds take about the budget."""
    whole, count = rows[-1].upto, rows[-1].part.examples
    each = whole.cpu_us(count, clock)
    while each * count < PROBE_CPU_S * 1e6 and count < (1 << 20):
        count *= 4
        each = whole.cpu_us(count, clock)
    # a prefix costs half of the whole on average, all parts alone one whole, their overheads little
    a_round = each * (len(rows) / 2 + 1.5)
    least = LEAST_ELEMENTS * max(row.part.examples for row in rows)
    return max(least, int(effort.budget_s * 1e6 / (effort.repeats + 1) / max(a_round, 0.01)))


def _fitting(limit: int, each: int) -> int:
    return max(1, min(256, limit // max(1, each)))


def _row(part: PipelinePart) -> _Row:
    """Returns a part with the bytes of an example, with labels, and the dtype of most bytes."""
    element = next(iter(part.upto.take(1)), None)
    if element is None:
        raise UsageError(f"the data set has no elements at {part.name!r}: a profile needs some")
    by_dtype: collections.Counter[str] = collections.Counter()
    for value in tf.nest.flatten(element, expand_composites=True):
        if isinstance(value, tf.Tensor):
            strings = value.dtype == tf.string
            size = int(tf.reduce_sum(tf.strings.length(value))) if strings else int(tf.size(value)) * value.dtype.size
            by_dtype[value.dtype.name] += size
    size = round(by_dtype.total() / part.examples)
    upto = _Case(part.upto, part.examples, _fitting(WINDOW_BYTES, size * part.examples))
    dtype, ops = max(by_dtype, key=by_dtype.__getitem__, default=""), tuple(sorted(part.ops))
    return _Row(part, Cost(part.name, (), (), size, dtype, part.examples, part.kind, ops, part.parallel), upto)
