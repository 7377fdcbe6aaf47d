"""Time enters the package here, so that tests can move it."""

from __future__ import annotations

import sys
import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""

    def cpu(self) -> float:
        """CPU seconds (user and system, all threads) of this process so far."""

    def sleep(self, seconds: float) -> None:
        """Returns after `seconds`; at once when not positive."""


class SystemClock:
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    cpu = staticmethod(time.process_time)

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


def thread_cpu() -> float:
    """CPU seconds of the calling thread so far."""
    return time.thread_time()


def thread_busy() -> float:
    """Seconds in which the calling thread ran or waited for a CPU so far; its CPU seconds if the
    system does not state it."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            ran_ns, delayed_ns, _ = file.read().split()
        return (int(ran_ns) + int(delayed_ns)) / 1e9
    except (OSError, ValueError):
        return thread_cpu()


def cpu_of(process_id: int) -> float:
    """CPU seconds of another process of this machine so far, to the nanosecond, without its children. Raises OSError
    where there is no such clock. Linux only: the clock's number is made as clock_getcpuclockid(3) makes it."""
    if sys.platform != "linux":
        raise OSError("no CPU clock of other processes here")
    return time.clock_gettime(~process_id << 3 | 2)


SYSTEM = SystemClock()
