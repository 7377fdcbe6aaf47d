"""Measures parts in rounds: every prefix of the pipeline, and every part alone on elements in memory, in turn.

Each round measures all of them, so that a machine that becomes slower slows all alike. Iterators live through all
rounds. A run begins and ends when the process is idle, with all buffers full: its CPU time is then that of all threads
for exactly the examples that were drawn. All threads share one core meanwhile, because across cores waking each other
up costs a map over single elements between 20 and 100 us, at random (seen on TF 2.15.1).
"""

from __future__ import annotations

import collections
import contextlib
import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.profile.part import PipelinePart
from tfhet.profile.result import Cost, Profile

HELD_BYTES = 4 << 20
"""Bytes of the elements that are kept in memory to measure a part alone."""
WINDOW_BYTES = 1 << 19
"""Bytes of the single elements that are drawn together, which fit into the nearest cache."""
LEAST_ELEMENTS = 8
"""Minimum number of elements of the largest part in a run."""
PROBE_CPU_S = 0.2
"""Minimum CPU time of the run that estimates the cost of an example, in seconds."""
REST_S = 0.005
"""Time between two looks at the process, in seconds."""
REST_CALM = 4
"""Number of consecutive looks without work, after which the process is idle: on a busy machine its threads may wait for
a core during one of them."""
REST_POLLS = 2000
"""Maximum number of looks."""


@dataclass(frozen=True)
class Effort:
    """Time that a profile may take."""

    budget_s: float = 30.0
    """Approximate CPU seconds of all rounds. Above 0."""
    repeats: int = 5
    """Number of measured rounds, after one more for warm-up. At least 1."""


class _Case:
    """A data set whose elements are drawn and timed."""

    def __init__(self, dataset: tf.data.Dataset, examples: int, window: int):
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        options.threading.max_intra_op_parallelism = 1
        options.autotune.enabled = False
        # Single elements are drawn in windows: one by one, that would cost more than most parts.
        self._window = window if examples == 1 else 1
        self._dataset = (dataset.window(self._window) if self._window > 1 else dataset).with_options(options)
        self._examples = examples

        self._iterator: Any = None

    def cpu_us(self, examples: int, clock: Clock, warm: int = 2) -> float:
        """Returns CPU microseconds per example over about `examples`; draws `warm` elements before the first run."""
        per_draw = self._examples * self._window
        draws = max(1, round(examples / per_draw))
        if self._iterator is None:
            self._iterator = iter(self._dataset)
            _draw(self._iterator, -(-warm // self._window))
        start = _rested(clock)
        _draw(self._iterator, draws)
        return (_rested(clock) - start) / (draws * per_draw) * 1e6


def _rested(clock: Clock) -> float:
    """Returns the CPU time of the process, in seconds, once its threads are idle and its buffers full."""
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
    # Not next(): the Python objects of a window cost more than most parts.
    resource, types = iterator._iterator_resource, iterator._flat_output_types
    shapes = iterator._flat_output_shapes
    try:
        for _ in range(count):
            tf.raw_ops.IteratorGetNext(iterator=resource, output_types=types, output_shapes=shapes)
    except tf.errors.OutOfRangeError:
        raise UsageError("the data set has no elements: a profile needs some") from None


def measure(
    name: str,
    parts: Sequence[PipelinePart],
    effort: Effort = Effort(),
    *,
    observer: Observer = ignore,
    clock: Clock = SYSTEM,
) -> Profile:
    """Measures parts that follow each other and returns their profile, called `name`.

    The observer gets the events `profile.started` (parts, examples) and `profile.round` (done, total). Raises
    UsageError for a data set without elements and for an effort out of range.
    """
    if effort.repeats < 1 or effort.budget_s <= 0:
        raise UsageError(
            f"a profile needs at least 1 round and some time, not {effort.repeats} and {effort.budget_s} s"
        )
    elements = [_element(part) for part in parts]
    sizes = [size for size, _ in elements]
    held = [_fitting(HELD_BYTES, size * part.examples) for part, size in zip(parts, sizes, strict=True)]
    windows = [_fitting(WINDOW_BYTES, size * part.examples) for part, size in zip(parts, sizes, strict=True)]
    uptos = [_Case(part.upto, part.examples, count) for part, count in zip(parts, windows, strict=True)]
    alone: dict[int, tuple[_Case, _Case]] = {}
    for index, part in enumerate(parts):
        if index and part.alone is not None:
            before, count = parts[index - 1], held[index - 1]
            memory = before.upto.take(count).cache().repeat()
            idle = memory if part.idle is None else part.idle(memory)
            cases = (
                _Case(part.alone(memory), part.examples, windows[index]),
                _Case(idle, before.examples, windows[index - 1]),
            )
            alone[index] = cases
    with _one_core():
        examples = _examples(uptos[-1], parts, effort, clock)
        observer(Event("profile.started", clock.wall(), {"parts": [p.name for p in parts], "examples": examples}))
        cumulative, apart = _rounds(uptos, alone, parts, held, examples, effort.repeats, observer, clock)
    costs = [
        Cost(
            name=part.name,
            cumulative_us=tuple(cumulative[index]),
            alone_us=tuple(apart[index]),
            bytes_per_example=sizes[index],
            dtype=elements[index][1],
            examples=part.examples,
            kind=part.kind,
            ops=tuple(sorted(part.ops)),
            parallel=part.parallel,
        )
        for index, part in enumerate(parts)
    ]
    return Profile(name, tuple(costs), examples)


def _rounds(
    uptos: Sequence[_Case],
    alone: Mapping[int, tuple[_Case, _Case]],
    parts: Sequence[PipelinePart],
    held: Sequence[int],
    examples: int,
    repeats: int,
    observer: Observer,
    clock: Clock,
) -> tuple[list[list[float]], list[list[float]]]:
    """Returns CPU microseconds per example, by part and round: of each prefix, and of each part alone."""
    cumulative: list[list[float]] = [[] for _ in parts]
    apart: list[list[float]] = [[] for _ in parts]
    for turn in range(repeats + 1):
        gc.collect()
        for index, case in enumerate(uptos):
            taken = case.cpu_us(examples, clock, 2)
            own = None
            if index in alone:
                with_it, idle = alone[index]
                warm = held[index - 1] + 1  # the first pass fills the memory
                own = with_it.cpu_us(examples, clock, warm * parts[index - 1].examples // parts[index].examples + 1)
                own -= idle.cpu_us(examples, clock, warm)
            if turn:
                cumulative[index].append(taken)
                apart[index] += [] if own is None else [own]
        observer(Event("profile.round", clock.wall(), {"done": turn, "total": repeats}))
    return cumulative, apart


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Keeps all threads of this process on one core, where the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    _bind({max(before)})
    try:
        yield
    finally:
        _bind(before)


def _bind(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # the thread has ended
            os.sched_setaffinity(int(thread), cores)


def _examples(whole: _Case, parts: Sequence[PipelinePart], effort: Effort, clock: Clock) -> int:
    """Returns the number of examples in each run for which all rounds take about the budget."""
    count, least = parts[-1].examples, LEAST_ELEMENTS * max(part.examples for part in parts)
    each = whole.cpu_us(count, clock, 2)
    while each * count < PROBE_CPU_S * 1e6 and count < (1 << 20):
        count *= 4
        each = whole.cpu_us(count, clock, 2)
    # A prefix costs half of the whole on average, all parts alone together one whole, and their overheads little.
    a_round = each * (len(parts) / 2 + 1.5)
    return max(least, int(effort.budget_s * 1e6 / (effort.repeats + 1) / max(a_round, 0.01)))


def _fitting(limit: int, each: int) -> int:
    return max(1, min(256, limit // max(1, each)))


def _element(part: PipelinePart) -> tuple[int, str]:
    """Returns the bytes of one example after this part, labels included, and the dtype of most of them."""
    element = next(iter(part.upto.take(1)), None)
    if element is None:
        raise UsageError(f"the data set has no elements at {part.name!r}: a profile needs some")
    by_dtype: collections.Counter[str] = collections.Counter()
    for value in tf.nest.flatten(element, expand_composites=True):
        if not isinstance(value, tf.Tensor):
            continue
        strings = value.dtype == tf.string
        size = int(tf.reduce_sum(tf.strings.length(value))) if strings else int(tf.size(value)) * value.dtype.size
        by_dtype[value.dtype.name] += size
    most = by_dtype.most_common(1)
    return round(by_dtype.total() / part.examples), most[0][0] if most else ""
