"""What loads from memory cost while hosts with quotas are measured.

The fewer CPUs a host has, the later it needs the same memory again, and the more of the caches others have used
meanwhile. On a virtual machine the cost of loads changes by factors within minutes, with what its neighbours do, while
work that stays in the caches takes as long as ever. So it is measured beside each run, and a run begins when it is low.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from tfhet.record import median

T = TypeVar("T")

EVERY_S = 0.2
LOADS = 2_000
"""In one sample: few enough to take next to nothing from the hosts."""
CALM_NS, CALM_LIMIT_S = 150.0, 1200.0
"""Nanoseconds of a load up to which the machine is calm; seconds that a suite waits for that in all."""
LOOK_S, LOOK_AGAIN_S = 2.0, 15.0
VALUES = 16 << 20
"""Values of 4 bytes each: many times what the caches of a core hold, if not what a machine's cores share."""


@functools.cache
def _values() -> np.ndarray:
    """The same for all runs of a process: what has just been written is in more caches."""
    return np.arange(VALUES, dtype=np.int32)


class ColdLoads:
    """Samples that were taken so far."""

    def __init__(self) -> None:
        self._values = _values()
        self._chosen = np.random.default_rng(0)
        self._taken_ns: list[float] = []

    @property
    def ns(self) -> float:
        """CPU nanoseconds of a load from anywhere in VALUES, in the mean of LOADS that overlap; the median of all
        samples. Raises UsageError without samples."""
        return median(self._taken_ns)

    def take(self) -> None:
        """Takes a sample. Caches are cold if the thread has waited before."""
        places = self._chosen.integers(0, VALUES, LOADS)
        begun_ns = time.thread_time_ns()
        self._values[places].sum()
        self._taken_ns.append((time.thread_time_ns() - begun_ns) / LOADS)


@contextlib.contextmanager
def cold_loads() -> Iterator[ColdLoads]:
    """Takes samples, from a thread of its own, as long as the context lasts."""
    loads, ended = ColdLoads(), threading.Event()

    def watch() -> None:
        is_last = False
        while not is_last:  # a run that is shorter has one sample
            is_last = ended.wait(EVERY_S)
            loads.take()

    thread = threading.Thread(target=watch, name="cold-loads")
    thread.start()
    try:
        yield loads
    finally:
        ended.set()
        thread.join()


def looked_at() -> float:
    """CPU nanoseconds of a load, in a look of some seconds, as `ColdLoads.ns` has it."""
    with cold_loads() as loads:
        time.sleep(LOOK_S)
    return loads.ns


@dataclass
class Calm:
    """Waits for the machine's neighbours, for some time in all."""

    limit_s: float = CALM_LIMIT_S
    """That it may wait in all. What comes later begins as the machine is."""
    waited_s: float = 0.0
    sleep: Callable[[float], None] = time.sleep
    taken: Callable[[], float] = looked_at
    say: Callable[[str], object] = lambda words: print(words, file=sys.stderr, flush=True)

    def wait(self) -> bool:
        """Returns when loads cost at most CALM_NS, or `limit_s` is used up: whether it has waited."""
        before_s = self.waited_s
        while self.waited_s < self.limit_s and (ns := self.taken()) > CALM_NS:
            left_min = (self.limit_s - self.waited_s) / 60.0
            self.say(f"waits until loads from memory take {CALM_NS:.0f} ns; now {ns:.0f}; for {left_min:.0f} min more")
            self.sleep(LOOK_AGAIN_S)
            self.waited_s += LOOK_AGAIN_S
        return self.waited_s > before_s


@dataclass(frozen=True)
class Beside(Generic[T]):
    """The result of a run, and `ColdLoads.ns` meanwhile."""

    found: T
    cold_load_ns: float


def beside(run: Callable[[int], T], calm: Calm) -> Callable[[int], Beside[T]]:
    """The same run, begun when it is calm, with samples taken beside it. run: a case of
    `tfhet.bench.harness.in_rounds`."""

    def watched(index: int) -> Beside[T]:
        calm.wait()
        with cold_loads() as loads:
            found = run(index)
        return Beside(found, loads.ns)

    return watched
