"""Numbers that were measured: a figure, with its interval, and a spread, of a run's steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """Probability with which the interval holds the true value, at least; None for a number that was
    measured once, or predicted."""

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
        """The percentage of `count` independent cases in which something held, `hits` times. Raises UsageError for no
        case, or more hits than cases."""
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
