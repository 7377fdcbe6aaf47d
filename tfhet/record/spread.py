"""How samples of one quantity spread: median, tenth and ninetieth percentile, and the samples in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.record.document import number
from tfhet.record.statistics import median, percentile


@dataclass(frozen=True)
class Spread:
    """Median, p10 and p90 of samples taken in order. The unit is in the name of the field that holds it (`step_ms`)."""

    median: float
    """The middle sample."""
    p10: float
    """A tenth of the samples lies below."""
    p90: float
    """A tenth of the samples lies above."""
    samples: tuple[float, ...] = ()
    """The raw samples in the order taken; empty when they were not kept."""

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """The spread of at least one sample. Raises UsageError when there is none."""
        return cls(
            median(samples), percentile(samples, 10), percentile(samples, 90), tuple(float(value) for value in samples)
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Spread:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError when a part is missing or no number."""
        return cls(
            float(number(document["median"])),
            float(number(document["p10"])),
            float(number(document["p90"])),
            tuple(float(number(value)) for value in document.get("samples") or ()),
        )

    def to_json(self) -> dict[str, Any]:
        return {"median": self.median, "p10": self.p10, "p90": self.p90, "samples": list(self.samples)}
