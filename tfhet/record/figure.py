"""Measured numbers: a figure with its interval, the spread of a run's steps, and intervals to compute with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tfhet.errors import UsageError
from tfhet.record.statistics import LEVEL, median, median_interval, percentile, ratios, share_interval


@dataclass(frozen=True)
class Figure:
    """One number of a record or a table, with its interval and the raw samples that it follows from."""

    value: float
    """Median of the samples; of a ratio, that of the ratios of the pairs."""
    low: float
    high: float
    unit: str
    """Unit of `value`, `low`, `high` and `samples`: `us`, `ms`, `x`, `%`, ..."""
    n: int
    against: str | None = None
    """The other side of a ratio or difference, in words; None for an absolute number."""
    samples: tuple[float, ...] = ()
    """Raw samples in the order in which they were taken; of a ratio, the ratio of each pair."""
    level: float | None = None
    """Minimum probability that the interval has the true value; None for a number measured once, or predicted."""

    @classmethod
    def of(cls, samples: Sequence[float], *, unit: str, against: str | None = None) -> Figure:
        """The median of `samples` with its interval. Raises UsageError without samples."""
        low, high, level = median_interval(samples)
        taken = tuple(map(float, samples))
        return cls(median(samples), low, high, unit, len(samples), against, taken, level or None)

    @classmethod
    def ratio(
        cls, numerator: Sequence[float], denominator: Sequence[float], *, unit: str = "x", against: str | None = None
    ) -> Figure:
        """The median of the ratios of two series whose i-th samples were measured next to each other; `Figure.ratio(a,
        b)` is how many times cheaper b is. Raises UsageError as `ratios`."""
        return cls.of(ratios(numerator, denominator), unit=unit, against=against)

    @classmethod
    def share(cls, hits: int, count: int) -> Figure:
        """The percentage of `hits` among `count` independent cases. Raises UsageError for no case, or more hits."""
        low, high = (100.0 * end for end in share_interval(hits, count))
        return cls(100.0 * hits / count, low, high, "%", count, level=LEVEL)

    @classmethod
    def single(cls, value: float, *, unit: str, against: str | None = None) -> Figure:
        """A number that was measured once: its interval is the number itself."""
        return cls(float(value), float(value), float(value), unit, 1, against, (float(value),))


@dataclass(frozen=True)
class Spread:
    """Median, p10 and p90 of a quantity in a run. Its unit is in the name of the field that holds it (`step_ms`)."""

    median: float
    p10: float
    p90: float
    samples: tuple[float, ...] = ()
    """Raw samples in the order in which they were taken; empty where they were not kept."""

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """The spread of at least one sample. Raises UsageError without samples."""
        return cls(median(samples), percentile(samples, 10), percentile(samples, 90), tuple(map(float, samples)))


class View(Enum):
    """End of every interval that a prediction takes. A model monotone in each input is worst where all are."""

    EXPECTED = "expected"
    BEST = "best"
    WORST = "worst"


@dataclass(frozen=True)
class Interval:
    """0 <= low <= value <= high, all finite. Raises UsageError for anything else."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.value <= self.high < math.inf:
            raise UsageError(f"{self.value} between {self.low} and {self.high}: wanted 0 <= low <= value <= high")

    @classmethod
    def exact(cls, value: float) -> Interval:
        return cls(float(value), float(value), float(value))

    @classmethod
    def of(cls, figure: Figure) -> Interval:
        """The interval that was measured. A negative end, which only noise can cause, becomes 0."""
        value = max(0.0, figure.value)
        return cls(value, min(value, max(0.0, figure.low)), max(value, figure.high))

    def times(self, factor: float) -> Interval:
        """The interval multiplied by a number from 0 up."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def plus(self, other: Interval) -> Interval:
        """The sum, as if both are low together and high together."""
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def inverse(self) -> Interval:
        """1 over the interval, which must not contain 0."""
        return Interval(1 / self.value, 1 / self.high, 1 / self.low)

    def rounded(self) -> Interval:
        """The interval in three digits."""
        return Interval(*(float(f"{end:.3g}") for end in (self.value, self.low, self.high)))

    def demand(self, view: View) -> float:
        """One number of a quantity that should be small, so that its worst is the high end."""
        return {View.EXPECTED: self.value, View.BEST: self.low, View.WORST: self.high}[view]

    def supply(self, view: View) -> float:
        """One number of a quantity that should be large, so that its worst is the low end."""
        return {View.EXPECTED: self.value, View.BEST: self.high, View.WORST: self.low}[view]

    def figure(self, unit: str) -> Figure:
        return Figure(self.value, self.low, self.high, unit, 1)

    def to_json(self) -> dict[str, float]:
        return dict(vars(self))
