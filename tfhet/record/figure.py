"""Numbers that are not exactly known: a figure (measured), a spread (of a run's steps), an interval (to compute with).

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

from tfhet.errors import DataError, UsageError
from tfhet.record.json_file import json_number
from tfhet.record.statistics import bootstrap_median, bootstrap_ratio, median, percentile


def _floats(samples: Any) -> tuple[float, ...]:
    return tuple(float(json_number(sample)) for sample in samples)


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
    """What a ratio or difference compares with, in words; None for an absolute number."""
    samples: tuple[float, ...] = ()
    """Raw samples in the order in which they were taken; of a ratio, the ratio of each pair."""

    @classmethod
    def of(cls, samples: Sequence[float], *, unit: str, against: str | None = None) -> Figure:
        """The median of `samples` with its bootstrap interval. Raises UsageError without samples."""
        return cls(median(samples), *bootstrap_median(samples), unit, len(samples), against, _floats(samples))

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
        try:
            return cls(
                *_floats(document[end] for end in ("value", "low", "high")),
                unit=str(document["unit"]),
                n=int(document["n"]),
                against=None if document.get("against") is None else str(document["against"]),
                samples=_floats(document.get("samples") or ()),
            )
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"figure {name!r} cannot be read: {error!r}") from None

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
        return cls(median(samples), percentile(samples, 10), percentile(samples, 90), _floats(samples))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Spread:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError for a field that does not fit."""
        median, p10, p90 = _floats(document[name] for name in ("median", "p10", "p90"))
        return cls(median, p10, p90, _floats(document.get("samples") or ()))

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
