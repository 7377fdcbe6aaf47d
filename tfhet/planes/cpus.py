"""CPUs of a host: how many its training uses, which are left for its workers, and how a process gives way to others.

Processes are confined and give way on Linux only.
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
"""Niceness, where the kernel has no SCHED_IDLE, and of an autogroup (sched(7)), within which alone niceness counts."""
WINDOW_S = 5.0
"""Seconds of one measurement."""
WINDOWS = 6
"""Number of measurements of which the largest counts: an evaluation, or the start of an epoch, is not the rule."""
SPARE_CPUS = 0.5
"""Fraction of a CPU of training load tolerated before one more CPU is reserved: workers give way there anyway."""


class Reserve:
    """Measures what the training of a host uses, and calls `keep` when the number of CPUs to reserve has changed."""

    def __init__(self, ranks: int, keep: Callable[[int, float], None]):
        """ranks: number of training processes of the host, for all of which the watched one stands. keep: called with
        the number of CPUs, and the largest use that was measured."""
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
        """Adds a measurement: the number of CPUs that one process uses, as a fraction."""
        self._used.append(used * self._ranks)
        most = max(self._used)
        wanted = max(0, math.ceil(most - SPARE_CPUS))
        if wanted != self._kept:
            self._kept = wanted
            self._keep(wanted, most)


def cpu_s(pid: int) -> float | None:
    """CPU seconds that a process and its living descendants have used; None when it is gone."""
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
    """Numbers of the CPUs that this process may use, ascending; () where the system does not say."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


def left_by(reserve: int, cpus: Sequence[int], topology: Path = TOPOLOGY) -> tuple[int, ...]:
    """The CPUs that are left of `cpus` when `reserve` of them are kept; all of them when none would be left. Whole
    cores are kept where possible, since two CPUs that are threads of one core share its units."""
    if not 0 < reserve < len(cpus):
        return tuple(cpus)
    by_core = sorted(cpus, key=lambda cpu: (_core(cpu, topology), cpu))
    return tuple(sorted(by_core[reserve:]))


def confine(pid: int, cpus: Iterable[int]) -> None:
    """Lets all threads of a process run on these CPUs only; does nothing for a process that is gone."""
    allowed = set(cpus)
    for thread in _threads(pid):  # a new thread has the CPUs of the one that made it
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, allowed)


def in_batches() -> None:
    """Lets this thread, and those that it will make, use up their turn of the CPU before another of them runs. For a
    batch of many small stages 142 ms of CPU with 100 interruptions were measured, 149 ms with 4,600 without this."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def give_way() -> None:
    """From now on the other threads of this process, and those that they make, run when no process of the host that
    does not give way wants the CPU. The calling thread, which reports that the process lives, stays as it is."""
    me = os.getpid()
    for thread in _threads(me):
        if thread != me:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, thread, LOWEST)
            with contextlib.suppress(OSError):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    if os.getsid(0) == me:  # an autogroup is a session's, and others may be in this one
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(LOWEST))


def _threads(pid: int) -> Iterator[int]:
    """The ids of all threads of a process, those included that begin meanwhile."""
    done = set[str]()
    with contextlib.suppress(OSError):
        while fresh := set(os.listdir(f"/proc/{pid}/task")) - done:
            yield from map(int, fresh)
            done |= fresh


def _core(cpu: int, topology: Path) -> int:
    """The first CPU of the core that it belongs to; itself where the system does not say."""
    try:
        text = (topology / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
        return int(text.split(",")[0].split("-")[0])
    except (OSError, ValueError):
        return cpu
