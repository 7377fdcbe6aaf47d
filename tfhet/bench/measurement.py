"""All samples of one case, in the order taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfhet.bench.meter import Sample
from tfhet.record import Figure
from tfhet.units import MICROSECOND_S


@dataclass(frozen=True)
class Measurement:
    """The raw samples of a case; warm-up is kept apart and enters no figure."""

    name: str
    """The case."""
    unit: str
    """What is counted."""
    units: int
    """How many of them one run did."""
    warmup: tuple[Sample, ...]
    """The runs before the measured ones."""
    samples: tuple[Sample, ...]
    """The measured runs: the i-th was taken next to the i-th of every other case."""

    @property
    def cpu_us(self) -> tuple[float, ...]:
        """CPU microseconds per unit, one value a run."""
        return tuple(sample.cpu_s / MICROSECOND_S / self.units for sample in self.samples)

    @property
    def wall_us(self) -> tuple[float, ...]:
        """Wall microseconds per unit, one value a run."""
        return tuple(sample.wall_s / MICROSECOND_S / self.units for sample in self.samples)

    def figure(self) -> Figure:
        """Median CPU microseconds per unit."""
        return Figure.of(self.cpu_us, unit="us")

    def cheaper_than(self, reference: Measurement, against: str) -> Figure:
        """How many times less CPU per unit this takes than `reference`, over the pairs that were taken together."""
        return Figure.ratio(reference.cpu_us, self.cpu_us, against=against)

    def to_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "units": self.units,
            "warmup": [sample.to_json() for sample in self.warmup],
            "samples": [sample.to_json() for sample in self.samples],
        }
