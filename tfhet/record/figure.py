"""One measured number with its interval, unit, and the raw samples that it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.errors import DataError
from tfhet.record import statistics
from tfhet.record.document import number


@dataclass(frozen=True)
class Figure:
    """A value with its spread, the way records and tables hold it."""

    value: float
    """The median of the samples, or the ratio of two medians."""
    low: float
    """Lower end of the bootstrap interval (95 %)."""
    high: float
    """Upper end of the bootstrap interval (95 %)."""
    unit: str
    """What `value`, `low`, `high` and `samples` are counted in: `us`, `x`, `ms`, `%`."""
    n: int
    """How many samples the value rests on."""
    against: str | None = None
    """For a ratio: what it is compared with, in words."""
    samples: tuple[float, ...] = ()
    """The raw samples in the order taken; for a ratio the ratio of each pair."""

    @classmethod
    def of(cls, samples: Sequence[float], *, unit: str, against: str | None = None) -> Figure:
        """The median of `samples` with its bootstrap interval. Raises UsageError when there is none."""
        low, high = statistics.bootstrap_median(samples)
        value = statistics.median(samples)
        return cls(value, low, high, unit, len(samples), against, tuple(float(sample) for sample in samples))

    @classmethod
    def ratio(
        cls, numerator: Sequence[float], denominator: Sequence[float], *, unit: str = "x", against: str | None = None
    ) -> Figure:
        """The ratio of the medians of two series whose i-th samples were measured next to each other.

        "How many times cheaper is b than a" is `Figure.ratio(a, b)`. Raises UsageError for unequal lengths, no samples,
        or a denominator that is not positive.
        """
        low, high = statistics.bootstrap_ratio(numerator, denominator)
        value = statistics.ratio_of_medians(numerator, denominator)
        pairs = tuple(float(above) / float(below) for above, below in zip(numerator, denominator, strict=True))
        return cls(value, low, high, unit, len(pairs), against, pairs)

    @classmethod
    def single(cls, value: float, *, unit: str, against: str | None = None) -> Figure:
        """A number that was counted once and has no spread."""
        return cls(float(value), float(value), float(value), unit, 1, against, (float(value),))

    @classmethod
    def from_json(cls, document: Mapping[str, Any], name: str = "figure") -> Figure:
        """The inverse of `to_json`. Raises DataError that names `name` and what is missing or wrong in it."""
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
