"""CPUs of a host: which are left for its workers, and how a process gives way to others. Linux; elsewhere a no-op."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

TOPOLOGY = Path("/sys/devices/system/cpu")
LOWEST = 19
"""Niceness, where the kernel has no SCHED_IDLE, and of an autogroup (sched(7)), within which alone niceness counts."""


def usable() -> tuple[int, ...]:
    """Numbers of the CPUs that this process may use, in order; () where the system does not tell."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


def left_by(reserve: int, cpus: Sequence[int], topology: Path = TOPOLOGY) -> tuple[int, ...]:
    """Which of `cpus` are left when `reserve` of them are kept, core by core; all of them when none would be left.

    Two CPUs that are threads of one core share what makes it fast, so that a kept one is whole where it can be.
    """
    if not 0 < reserve < len(cpus):
        return tuple(cpus)
    by_core = sorted(cpus, key=lambda cpu: (_core(cpu, topology), cpu))
    return tuple(sorted(by_core[reserve:]))


def confine(pid: int, cpus: Iterable[int]) -> None:
    """Lets all threads of a process run on these CPUs only; a process that is gone needs no more of it."""
    allowed, done = set(cpus), set[int]()
    while fresh := set(_threads(pid)) - done:  # a new thread has the CPUs of the one that made it
        for thread in fresh:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, allowed)
        done |= fresh


def in_batches() -> None:
    """This thread, and those that it will make, do not interrupt each other: one goes on until its turn is over, though
    another has got work. Pipelines of many small stages need less CPU so (measured: 142 ms for a batch, 149 without,
    4,600 and 100 interruptions)."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def give_way() -> None:
    """From now on the other threads of this process, and those that they make, run when no process of the host that
    does not give way wants the CPU. The calling one, which is to tell that all is well, stays as it is."""
    me, done = os.getpid(), set[int]()
    while fresh := set(_threads(me)) - done - {me}:
        for thread in fresh:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, thread, LOWEST)
            with contextlib.suppress(OSError):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        done |= fresh
    if os.getsid(0) == me:  # an autogroup is a session's, and others may be in this one
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(LOWEST))


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _core(cpu: int, topology: Path) -> int:
    """The first CPU of the core that it belongs to; itself when nobody says."""
    try:
        text = (topology / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
        return int(text.split(",")[0].split("-")[0])
    except (OSError, ValueError):
        return cpu
