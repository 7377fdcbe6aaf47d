"""CPUs of a dnn host that its workers keep off: as many as its training processes are seen to use."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import math
from collections.abc import Callable

import psutil

from tfhet.clock import SYSTEM

WINDOW_S = 5.0
"""So long a measurement takes."""
WINDOWS = 6
"""The most that was used in so many of them counts: an evaluation, or an epoch that begins, is not the rule."""
SPARE_CPUS = 0.5
"""So much of a CPU the training may use beyond what is kept: workers give way there anyway, and a whole one is more."""


class Reserve:
    """Measures what the training of a host uses, and tells `keep` how many CPUs that is when it has changed.

    `ranks`: training processes of the host; the one that is watched stands for all.
    """

    def __init__(self, ranks: int, keep: Callable[[int, float], None]):
        self._ranks = ranks
        self._keep = keep
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
        """One more measurement: CPUs in use by one process, 1.0 being all the time of one."""
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
        family = [process, *process.children(recursive=True)]
        total = _spent_s(process)
    except psutil.Error:
        return None
    for child in family[1:]:
        with contextlib.suppress(psutil.Error):
            total += _spent_s(child)
    return total


def _spent_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
