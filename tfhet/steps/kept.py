"""Bounded memory of a run of any length: its steps, its pauses, and samples of other measurements.

The first, the last and the slowest steps are kept as they are. Of the others a random sample is kept, in which each
step has the number of steps that it stands for (`StepTime.times`).
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from tfhet.record import StepTime

MOST = 4096
"""Maximum number of steps that are kept, and of samples of a measurement."""
ENDS = 500
"""Number of steps that are kept at the beginning and at the end of the run."""
SLOWEST = 100
"""Number of steps between these that are kept because they lasted, or waited, longest."""
_COLUMNS = ("dur_s", "wait_s", "examples", "copy_s", "allreduce_s", "at_s", "step", "epoch", "times")
_COUNTS = ("examples", "step", "epoch", "times")
T = TypeVar("T")


class KeptSteps(Sequence[StepTime]):
    """Steps of a rank without its number and host, in 72 bytes each. A column has NaN for an `allreduce_s` of None."""

    def __init__(self) -> None:
        self.added = 0
        """Number of steps that were added."""
        self._columns = {name: array("d") for name in _COLUMNS}
        self._random = np.random.default_rng(0)

    def append(self, step: StepTime) -> None:
        if len(self) >= MOST:
            self._thin()
        for name, column in self._columns.items():
            value = getattr(step, name)
            column.append(math.nan if value is None else value)
        self.added += 1

    def last(self, count: int) -> list[StepTime] | None:
        """The last `count` steps; None if they are not all kept."""
        is_kept = count <= min(ENDS, len(self)) or len(self) == self.added
        return self[len(self) - count :] if is_kept else None

    def sample(self, name: str, skip: int = 0) -> np.ndarray:
        """One field of a representative sample, in order, without the first `skip` steps: float64 [n], of all steps
        while they are at most MOST."""
        values, times = (np.array(self._columns[each])[skip:] for each in (name, "times"))
        ends = np.cumsum(times)
        if not ends.size or ends[-1] == ends.size:
            return values
        count = min(MOST, ends.size)
        return values[np.searchsorted(ends, (np.arange(count) + 0.5) * (ends[-1] / count))]

    def longest_waits(self) -> list[StepTime]:
        """The SLOWEST steps that waited longest, in order, if not all steps are kept; else []."""
        alone = [step for step in self if step.times == 1] if len(self) < self.added else []
        longest = sorted(alone, key=lambda step: -step.wait_s)[:SLOWEST]
        return sorted(longest, key=lambda step: step.at_s)

    def _thin(self) -> None:
        """Replaces the pairs of neighbours in the middle that stand for the fewest steps by one of them, drawn in
        proportion to its number of steps."""
        columns = {name: np.array(column) for name, column in self._columns.items()}
        keeps = np.zeros(len(self), bool)
        keeps[:ENDS] = keeps[-ENDS:] = True
        for name in ("dur_s", "wait_s"):
            values = np.where(keeps | (columns["times"] > 1), -1.0, columns[name])
            keeps[np.argpartition(values, -SLOWEST)[-SLOWEST:]] = True
        middle = np.flatnonzero(~keeps)
        keeps[middle] = True
        pairs = middle[: len(middle) // 2 * 2].reshape(-1, 2)
        sums = columns["times"][pairs].sum(1)
        lightest = np.argsort(sums, kind="stable")[: len(pairs) // 2]
        pairs, sums = pairs[lightest], sums[lightest]
        is_second = self._random.random(len(pairs)) * sums >= columns["times"][pairs[:, 0]]
        stays, goes = np.where(is_second, pairs.T[::-1], pairs.T)
        columns["times"][stays] = sums
        keeps[goes] = False
        self._columns = {name: array("d", column[keeps].tobytes()) for name, column in columns.items()}

    def __len__(self) -> int:
        return len(self._columns["times"])  # the last one that `append` extends

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        values: dict[str, Any] = {name: column[at] for name, column in self._columns.items()}
        whole = {name: int(value) for name, value in values.items() if name in _COUNTS and value.is_integer()}
        alone = {"allreduce_s": None} if math.isnan(values["allreduce_s"]) else {}
        return StepTime(**values | whole | alone)


class FirstAndLast(Generic[T]):
    """The first and the last ENDS of many values."""

    def __init__(self) -> None:
        self.added = 0
        """Number of values that were added."""
        self._first: list[T] = []
        self._last: deque[T] = deque(maxlen=ENDS)

    def append(self, value: T) -> None:
        self.added += 1
        (self._first if len(self._first) < ENDS else self._last).append(value)

    def last(self, count: int) -> list[T] | None:
        """The last `count` values; None if they are not all kept."""
        values = list(self)
        return values[len(values) - count :] if count <= ENDS or len(values) == self.added else None

    def __len__(self) -> int:
        return len(self._first) + len(self._last)

    def __iter__(self) -> Iterator[T]:
        return itertools.chain(self._first, self._last)


class Sample:
    """Numbers in the order in which they were added; of more than MOST a random half, again and again."""

    def __init__(self) -> None:
        self.values = array("d")
        self._share = 1.0
        self._random = np.random.default_rng(0)

    def extend(self, new: Sequence[float]) -> None:
        values = np.asarray(new, np.float64)
        self.values.frombytes(values[self._random.random(len(values)) < self._share].tobytes())
        while len(self.values) > MOST:
            kept = np.array(self.values)[self._random.random(len(self.values)) < 0.5]
            self.values = array("d", kept.tobytes())
            self._share /= 2
