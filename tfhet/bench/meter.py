"""CPU and wall time of a piece of work: all threads of this process, and the processes that it started."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import psutil

from tfhet.clock import SYSTEM, Clock, cpu_of


@dataclass(frozen=True)
class Sample:
    """What one run took."""

    wall_s: float
    """From its start to its end."""
    cpu_s: float
    """User and system time of all threads, children included."""

    def to_json(self) -> dict[str, float]:
        return {"wall_s": round(self.wall_s, 9), "cpu_s": round(self.cpu_s, 9)}


class Meter(Protocol):
    """Readings of two clocks; the sample between two readings is their difference."""

    def start(self) -> Sample:
        """A reading for the beginning: what the reading itself costs falls before it."""

    def stop(self, start: Sample) -> Sample:
        """What was taken since `start`: what the reading itself costs falls behind it."""


def children_cpu_s() -> float:
    """CPU seconds of the processes below this one: those waited for, and those alive."""
    times = os.times()
    total = times.children_user + times.children_system
    try:
        alive = psutil.Process().children(recursive=True)
    except psutil.Error:
        return total
    for child in alive:
        try:
            spent = child.cpu_times()
            total += _cpu_s(child.pid, spent.user + spent.system)
        except psutil.Error:  # ended since it was listed
            continue
        total += getattr(spent, "children_user", 0.0) + getattr(spent, "children_system", 0.0)
    return total


def _cpu_s(process_id: int, ticks_s: float) -> float:
    """Of a living process; by ticks (10 ms on Linux) where nothing finer is known."""
    try:
        return cpu_of(process_id)
    except OSError:
        return ticks_s


class ProcessMeter:
    """Measures this process with its threads, and its children."""

    def __init__(self, clock: Clock = SYSTEM, children: Callable[[], float] = children_cpu_s):
        self._clock = clock
        self._children = children

    def start(self) -> Sample:
        children = self._children()
        cpu = self._clock.cpu()
        return Sample(self._clock.monotonic(), cpu + children)

    def stop(self, start: Sample) -> Sample:
        wall = self._clock.monotonic()
        cpu = self._clock.cpu()
        return Sample(wall - start.wall_s, max(0.0, cpu + self._children() - start.cpu_s))
