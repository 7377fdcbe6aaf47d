"""A measured number with its unit, its interval, and the raw samples that it follows from.

>>> from tfhet.record import Figure
>>> Figure.ratio([40.0, 44.0, 42.0], [10.0, 11.0, 10.5], against="the library").value
4.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.errors import DataError
from tfhet.record import statistics
from tfhet.record.document import number


@dataclass(frozen=True)
class Figure:
    """One number of a record or a table."""

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
        low, high = statistics.bootstrap_median(samples)
        value = statistics.median(samples)
        return cls(value, low, high, unit, len(samples), against, tuple(float(sample) for sample in samples))

    @classmethod
    def ratio(
        cls, numerator: Sequence[float], denominator: Sequence[float], *, unit: str = "x", against: str | None = None
    ) -> Figure:
        """The ratio of the medians of two series whose i-th samples were measured next to each other.

        How many times cheaper b is than a is `Figure.ratio(a, b)`. Raises UsageError for unequal lengths, no samples,
        or a denominator that is not positive.
        """
        low, high = statistics.bootstrap_ratio(numerator, denominator)
        value = statistics.ratio_of_medians(numerator, denominator)
        pairs = tuple(float(above) / float(below) for above, below in zip(numerator, denominator, strict=True))
        return cls(value, low, high, unit, len(pairs), against, pairs)

    @classmethod
    def single(cls, value: float, *, unit: str, against: str | None = None) -> Figure:
        """A number that was measured once: its interval is the number itself."""
        return cls(float(value), float(value), float(value), unit, 1, against, (float(value),))

    @classmethod
    def from_json(cls, document: Mapping[str, Any], name: str = "figure") -> Figure:
        """The inverse of `to_json`. Raises DataError with `name` and the field that is missing or wrong."""
        try:
            return cls(
                float(number(document["value"])),
                float(number(document["low"])),
                float(number(document["high"])),
                str(document["unit"]),
                int(document["n"]),
                None if document.get("against") is None else str(document["against"]),
                tuple(float(number(sample)) for sample in document.get("samples") or ()),
            )
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"figure {name!r} cannot be read: {error!r}") from None

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "unit": self.unit,
            "n": self.n,
            "against": self.against,
            "samples": list(self.samples),
        }
