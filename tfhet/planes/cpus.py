"""CPUs of a host: the number that its training uses, the rest for its workers, and processes with the lowest priority.

Only Linux binds processes to CPUs and has the lowest priority.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import psutil

from tfhet.clock import SYSTEM

TOPOLOGY = Path("/sys/devices/system/cpu")
LOWEST = 19
"""Niceness of threads and of their autogroup (sched(7)); niceness is relative within an autogroup."""
WINDOW_S = 5.0
"""Seconds of one measurement."""
WINDOWS = 6
"""Number of measurements; the largest counts, since some contain an evaluation or the start of an epoch."""
SPARE_CPUS = 0.5
"""Fraction of a CPU that the training may use before one more CPU is reserved."""


class Reserve:
    """Measures the CPU use of a host's training and calls `keep` when the number of CPUs to reserve changes."""

    def __init__(self, ranks: int, keep: Callable[[int, float], None]):
        """ranks: training processes of the host; one is watched. keep: gets the number of CPUs and the largest use."""
        self._ranks, self._keep = ranks, keep
        self._used: collections.deque[float] = collections.deque(maxlen=WINDOWS)
        self._kept = 0

    async def follow(self, pid: int) -> None:
        """Watches a training process, with its children, until it has ended."""
        at_s, spent_s = SYSTEM.monotonic(), cpu_s(pid)
        while True:
            await asyncio.sleep(WINDOW_S)
            now_s, now_spent_s = SYSTEM.monotonic(), cpu_s(pid)
            if now_spent_s is None or spent_s is None:
                return
            self.add(max(0.0, now_spent_s - spent_s) / (now_s - at_s))
            at_s, spent_s = now_s, now_spent_s

    def add(self, used: float) -> None:
        """Adds a measurement of the CPUs that one process uses."""
        self._used.append(used * self._ranks)
        most = max(self._used)
        wanted = max(0, math.ceil(most - SPARE_CPUS))
        if wanted != self._kept:
            self._kept = wanted
            self._keep(wanted, most)


def cpu_s(pid: int) -> float | None:
    """Returns the CPU seconds of a process and its living descendants; None if it has ended."""
    try:
        process = psutil.Process(pid)
        family, times = process.children(recursive=True), [process.cpu_times()]
    except psutil.Error:
        return None
    for child in family:
        with contextlib.suppress(psutil.Error):
            times.append(child.cpu_times())
    return float(sum(one.user + one.system for one in times))


def usable() -> tuple[int, ...]:
    """Returns the numbers of the CPUs that this process may use, ascending; () if the system does not know."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


def left_by(reserve: int, cpus: Sequence[int], topology: Path = TOPOLOGY) -> tuple[int, ...]:
    """Returns the CPUs without `reserve` reserved ones, in whole cores if possible; all if none would be left."""
    if not 0 < reserve < len(cpus):
        return tuple(cpus)
    by_core = sorted(cpus, key=lambda cpu: (_core(cpu, topology), cpu))
    return tuple(sorted(by_core[reserve:]))


def confine(pid: int, cpus: Iterable[int]) -> None:
    """Binds all threads of a process to CPUs; does nothing if it has ended."""
    allowed = set(cpus)
    for thread in _threads(pid):  # new threads inherit the CPUs
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, allowed)


def in_batches() -> None:
    """Lets this thread and its future threads use whole time slices, which saved 5 % of CPU in many small stages."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def give_way() -> None:
    """Gives the lowest priority to all threads but the calling one, which reports that the process is alive."""
    me = os.getpid()
    for thread in _threads(me):
        if thread != me:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, thread, LOWEST)
            with contextlib.suppress(OSError):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    if os.getsid(0) == me:  # an autogroup is of a whole session
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(LOWEST))


def _threads(pid: int) -> Iterator[int]:
    """Yields the ids of all threads of a process, including new ones."""
    done = set[str]()
    with contextlib.suppress(OSError):
        while fresh := set(os.listdir(f"/proc/{pid}/task")) - done:
            yield from map(int, fresh)
            done |= fresh


def _core(cpu: int, topology: Path) -> int:
    """Returns the first CPU of the same core; the CPU itself if the system does not know."""
    try:
        text = (topology / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
        return int(text.split(",")[0].split("-")[0])
    except (OSError, ValueError):
        return cpu
