"""CPU and wall time of a piece of work: all threads of this process, and the processes that it started."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from tfhet.clock import SYSTEM, Clock, cpu_of


@dataclass(frozen=True)
class Sample:
    """Time that one run took, in seconds."""

    wall_s: float
    cpu_s: float
    """User and system time of all threads, child processes included."""

    def to_json(self) -> dict[str, float]:
        return {"wall_s": round(self.wall_s, 9), "cpu_s": round(self.cpu_s, 9)}


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
        """Returns a reading of both clocks, for `stop`."""
        cpu_s = self._children() + self._clock.cpu()
        return Sample(self._clock.monotonic(), cpu_s)

    def stop(self, start: Sample) -> Sample:
        wall_s, cpu_s = self._clock.monotonic(), self._clock.cpu()
        return Sample(wall_s - start.wall_s, max(0.0, cpu_s + self._children() - start.cpu_s))
