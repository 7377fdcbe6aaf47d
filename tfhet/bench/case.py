"""A piece of work to measure, and the samples that were taken of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfhet.bench.meter import Sample
from tfhet.errors import UsageError
from tfhet.record import Figure
from tfhet.units import MICROSECOND_S


@dataclass(frozen=True)
class Case:
    """A piece of work to measure: `run(begin(state))`, timed without `begin`, on the state that `prepare()` made."""

    name: str
    run: Callable[[Any], object]
    """Does all `units` of the work once; its result is ignored. Raises when the work was not done."""
    units: int = 1
    unit: str = "run"
    """Name of a unit: `image`, `batch`, `run`."""
    prepare: Callable[[], Any] = lambda: None
    """Makes the state, untimed, before the first round: opens files, traces graphs."""
    close: Callable[[Any], object] = lambda state: None
    """Undoes `prepare`, untimed, after the last round, also after an error."""
    begin: Callable[[Any], Any] = lambda state: state
    """Makes the input of one run, untimed, such as a data set's iterator, which takes TensorFlow 150 ms."""

    def __post_init__(self) -> None:
        if self.units < 1:
            raise UsageError(f"bench case {self.name!r}: units is {self.units}; a run does at least one {self.unit}")


@dataclass(frozen=True)
class Measurement:
    """The raw samples of a case, in the order taken; warm-up enters no figure. For the fields see `Case`."""

    name: str
    unit: str
    units: int
    warmup: tuple[Sample, ...]
    samples: tuple[Sample, ...]
    """The measured runs: the i-th was taken next to the i-th of every other case."""

    @property
    def cpu_us(self) -> tuple[float, ...]:
        """CPU microseconds per unit of each run."""
        return tuple(sample.cpu_s / MICROSECOND_S / self.units for sample in self.samples)

    @property
    def wall_us(self) -> tuple[float, ...]:
        """Wall microseconds per unit of each run."""
        return tuple(sample.wall_s / MICROSECOND_S / self.units for sample in self.samples)

    def figure(self) -> Figure:
        """Returns the median CPU microseconds per unit."""
        return Figure.of(self.cpu_us, unit="us")

    def cheaper_than(self, reference: Measurement, against: str) -> Figure:
        """Returns how many times less CPU per unit this takes than `reference`, over the pairs taken together."""
        return Figure.ratio(reference.cpu_us, self.cpu_us, against=against)

    def to_json(self) -> dict[str, Any]:
        warmup, samples = ([sample.to_json() for sample in taken] for taken in (self.warmup, self.samples))
        return {"unit": self.unit, "units": self.units, "warmup": warmup, "samples": samples}
