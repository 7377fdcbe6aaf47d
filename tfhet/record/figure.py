"""Numbers that were measured: a figure, with its interval, and a spread, of a run's steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.record.statistics import bootstrap_median, bootstrap_ratio, median, percentile


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
        """The ratio of the medians of two series whose i-th samples were measured next to each other. How many times
        cheaper b is than a is `Figure.ratio(a, b)`. Raises UsageError for unequal lengths, no samples, or a denominator
        that is not positive."""
        low, high = bootstrap_ratio(numerator, denominator)
        pairs = tuple(float(above) / float(below) for above, below in zip(numerator, denominator, strict=True))
        return cls(median(numerator) / median(denominator), low, high, unit, len(pairs), against, pairs)

    @classmethod
    def single(cls, value: float, *, unit: str, against: str | None = None) -> Figure:
        """A number that was measured once: its interval is the number itself."""
        return cls(float(value), float(value), float(value), unit, 1, against, (float(value),))

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "samples": list(self.samples)}


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

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "samples": list(self.samples)}
