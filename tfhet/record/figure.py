"""Numbers that are not exactly known: a figure (measured), a spread (of a run's steps), an interval (to compute with).

The interval of a figure is the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 13) of the median, or of a ratio of medians over pairs that were measured next to each other. It is seeded, so
the same samples give the same interval everywhere. Below about 5 samples it is the range of the samples rather than a
statement of confidence.

>>> from tfhet.record import Figure
>>> Figure.ratio([40.0, 44.0, 42.0], [10.0, 11.0, 10.5], against="the library").value
4.0
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from tfhet.errors import UsageError
from tfhet.record.json_object import from_json_object

RESAMPLES = 2000
TAILS_PCT = (2.5, 97.5)
"""Percentiles that bound the 95 % interval."""
SEED = 20240229


def _array(samples: Sequence[float]) -> np.ndarray:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise UsageError(f"at least one number is needed, got {samples!r}")
    return values


def percentile(samples: Sequence[float], q: float) -> float:
    """The `q`-th percentile (0 to 100), interpolated linearly between neighbours. Raises UsageError without samples."""
    return float(np.percentile(_array(samples), q))


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two middle ones. Raises UsageError without samples."""
    return float(np.median(_array(samples)))


def _bounds(statistics: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(statistics, TAILS_PCT)
    return float(low), float(high)


def _draws(count: int, resamples: int = RESAMPLES) -> np.ndarray:
    return np.random.default_rng(SEED).integers(0, count, size=(resamples, count))


def bootstrap_median(samples: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval (low, high) of the median; of a single sample, the sample itself twice."""
    values = _array(samples)
    if values.size == 1:
        return float(values[0]), float(values[0])
    # The indices alone take 16 bytes x resamples x n.
    resamples = RESAMPLES if values.size <= 2000 else max(200, RESAMPLES * 2000 // values.size)
    return _bounds(np.median(values[_draws(values.size, resamples)], axis=1))


def bootstrap_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval (low, high) of the ratio of medians of paired samples.

    The i-th samples were measured next to each other, and pairs are drawn, so a drift of the machine that affects both
    cancels. Raises UsageError for unequal lengths, no samples, or a denominator that is not positive.
    """
    above, below = _array(numerator), _array(denominator)
    if above.size != below.size:
        raise UsageError(f"paired samples differ in number: {above.size} and {below.size}")
    if not (below > 0).all():
        raise UsageError("ratio: a sample of the denominator is not positive")
    if above.size == 1:
        value = float(above[0] / below[0])
        return value, value
    draws = _draws(above.size)
    return _bounds(np.median(above[draws], axis=1) / np.median(below[draws], axis=1))


@dataclass(frozen=True)
class Figure:
    """One number of a record or a table, with its interval and the raw samples that it follows from."""

    value: float
    """Median of the samples, or ratio of two medians."""
    low: float
    """Lower end of the 95 % bootstrap interval."""
    high: float
    """Upper end of the 95 % bootstrap interval."""
    unit: str
    """Unit of `value`, `low`, `high` and `samples`: `us`, `ms`, `x`, `%`, ..."""
    n: int
    """Number of samples."""
    against: str | None = None
    """The other side of a ratio or difference, in words; None for an absolute number."""
    samples: tuple[float, ...] = ()
    """Raw samples in the order in which they were taken; of a ratio, the ratio of each pair."""

    @classmethod
    def of(cls, samples: Sequence[float], *, unit: str, against: str | None = None) -> Figure:
        """The median of `samples` with its bootstrap interval. Raises UsageError without samples."""
        return cls(median(samples), *bootstrap_median(samples), unit, len(samples), against, tuple(map(float, samples)))

    @classmethod
    def ratio(
        cls, numerator: Sequence[float], denominator: Sequence[float], *, unit: str = "x", against: str | None = None
    ) -> Figure:
        """The ratio of the medians of two series whose i-th samples were measured next to each other.

        How many times cheaper b is than a is `Figure.ratio(a, b)`. Raises UsageError for unequal lengths, no samples,
        or a denominator that is not positive.
        """
        low, high = bootstrap_ratio(numerator, denominator)
        pairs = tuple(float(above) / float(below) for above, below in zip(numerator, denominator, strict=True))
        return cls(median(numerator) / median(denominator), low, high, unit, len(pairs), against, pairs)

    @classmethod
    def single(cls, value: float, *, unit: str, against: str | None = None) -> Figure:
        """A number that was measured once: its interval is the number itself."""
        return cls(float(value), float(value), float(value), unit, 1, against, (float(value),))

    @classmethod
    def from_json(cls, document: Mapping[str, Any], name: str = "figure") -> Figure:
        """The inverse of `to_json`. Raises DataError with `name` and the field that is missing or wrong."""
        return from_json_object(cls, document, f"figure {name!r}")

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "samples": list(self.samples)}


@dataclass(frozen=True)
class Spread:
    """Median, p10 and p90 of a quantity in a run. Its unit is in the name of the field that holds it (`step_ms`)."""

    median: float
    p10: float
    """10th percentile."""
    p90: float
    """90th percentile."""
    samples: tuple[float, ...] = ()
    """Raw samples in the order in which they were taken; empty where they were not kept."""

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """The spread of at least one sample. Raises UsageError without samples."""
        return cls(median(samples), percentile(samples, 10), percentile(samples, 90), tuple(map(float, samples)))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Spread:
        """The inverse of `to_json`. Raises DataError for a field that is missing or wrong."""
        return from_json_object(cls, document, "spread")

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "samples": list(self.samples)}


class View(Enum):
    """End of every interval that a prediction takes. A model that is monotone in each input is at its worst where every
    input is."""

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
        """A number without a spread."""
        return cls(float(value), float(value), float(value))

    @classmethod
    def of(cls, figure: Figure) -> Interval:
        """The interval that was measured. A negative end, which only noise can cause, becomes 0."""
        value = max(0.0, figure.value)
        return cls(value, min(value, max(0.0, figure.low)), max(value, figure.high))

    def times(self, factor: float) -> Interval:
        """The interval multiplied by a number from 0 up."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def demand(self, view: View) -> float:
        """One number of a quantity that should be small, so that its worst is the high end."""
        return {View.EXPECTED: self.value, View.BEST: self.low, View.WORST: self.high}[view]

    def supply(self, view: View) -> float:
        """One number of a quantity that should be large, so that its worst is the low end."""
        return {View.EXPECTED: self.value, View.BEST: self.high, View.WORST: self.low}[view]

    def figure(self, unit: str) -> Figure:
        """The interval as records and plots take it."""
        return Figure(self.value, self.low, self.high, unit, 1)

    def to_json(self) -> dict[str, float]:
        return dict(vars(self))
