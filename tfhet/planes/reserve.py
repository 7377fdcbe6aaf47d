"""CPUs of a dnn host that its workers leave to the training: as many as it is measured to use."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import math
from collections.abc import Callable

import psutil

from tfhet.clock import SYSTEM

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
