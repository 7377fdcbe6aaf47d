"""The distribution of one quantity in a run: its median, 10th and 90th percentile, and its samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.record.document import number
from tfhet.record.statistics import median, percentile


@dataclass(frozen=True)
class Spread:
    """Median, p10 and p90 of samples. The unit is in the name of the field that holds the spread (`step_ms`)."""

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
        return cls(
            median(samples), percentile(samples, 10), percentile(samples, 90), tuple(float(value) for value in samples)
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Spread:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError for a field that does not fit."""
        return cls(
            float(number(document["median"])),
            float(number(document["p10"])),
            float(number(document["p90"])),
            tuple(float(number(value)) for value in document.get("samples") or ()),
        )

    def to_json(self) -> dict[str, Any]:
        return {"median": self.median, "p10": self.p10, "p90": self.p90, "samples": list(self.samples)}
