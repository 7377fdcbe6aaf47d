"""A piece of work to measure, and its samples: CPU time of all threads and child processes, and wall time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil

from tfhet.clock import SYSTEM, Clock, cpu_of
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
class Sample:
    wall_s: float
    cpu_s: float
    """User and system time of all threads, child processes included."""

    def to_json(self) -> dict[str, float]:
        return {"wall_s": round(self.wall_s, 9), "cpu_s": round(self.cpu_s, 9)}


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
        return tuple(sample.cpu_s / MICROSECOND_S / self.units for sample in self.samples)

    @property
    def wall_us(self) -> tuple[float, ...]:
        return tuple(sample.wall_s / MICROSECOND_S / self.units for sample in self.samples)

    def figure(self) -> Figure:
        return Figure.of(self.cpu_us, unit="us")

    def cheaper_than(self, reference: Measurement, against: str) -> Figure:
        """Returns how many times less CPU per unit this takes than `reference`, over the pairs taken together."""
        return Figure.ratio(reference.cpu_us, self.cpu_us, against=against)

    def to_json(self) -> dict[str, Any]:
        warmup, samples = ([sample.to_json() for sample in taken] for taken in (self.warmup, self.samples))
        return {"unit": self.unit, "units": self.units, "warmup": warmup, "samples": samples}


def children_cpu_s() -> float:
    """Returns the CPU seconds of all processes below this one: those waited for, and those alive."""
    times = os.times()
    total = times.children_user + times.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.Error:  # ended since it was listed
            continue
        try:
            total += cpu_of(child.pid)
        except OSError:  # only ticks are known (10 ms on Linux)
            total += spent.user + spent.system
        total += getattr(spent, "children_user", 0.0) + getattr(spent, "children_system", 0.0)
    return total


class ProcessMeter:
    """Measures this process with its threads, and its children. The cost of the readings is not in the sample."""

    def __init__(self, clock: Clock = SYSTEM, children: Callable[[], float] = children_cpu_s):
        self._clock = clock
        self._children = children

    def start(self) -> Sample:
        cpu_s = self._children() + self._clock.cpu()
        return Sample(self._clock.monotonic(), cpu_s)

    def stop(self, start: Sample) -> Sample:
        wall_s, cpu_s = self._clock.monotonic(), self._clock.cpu()
        return Sample(wall_s - start.wall_s, max(0.0, cpu_s + self._children() - start.cpu_s))
