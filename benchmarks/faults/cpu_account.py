"""CPU seconds of a job's launchers, and of all that they started: looked at from outside, again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

EVERY_S = 0.2
"""Seconds between two looks at a process. What it uses after the last look is not seen."""


@dataclass(frozen=True)
class CpuSeconds:
    """CPU seconds by who used them."""

    launchers: float = 0.0
    """The launchers themselves: the links, the log, the supervision."""
    others: float = 0.0
    """Dispatcher, workers and training scripts, those that have ended included."""

    @property
    def launchers_pct(self) -> float:
        """The launchers' share of all, 0 to 100. Raises ZeroDivisionError when nothing was used."""
        return 100.0 * self.launchers / (self.launchers + self.others)

    def __sub__(self, earlier: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.launchers - earlier.launchers, self.others - earlier.others)

    def to_json(self) -> dict[str, float]:
        return {"launchers_cpu_s": self.launchers, "others_cpu_s": self.others}


class CpuAccount:
    """Keeps the account of the launchers that `pids` names, by label, in a thread, as a context manager.

    A process is known by its number and its start, and counted with what it had used when it was last seen.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int]]):
        self._pids = pids
        self._seen: dict[tuple[int, float], tuple[bool, float]] = {}
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="cpu-account", daemon=True)

    def __enter__(self) -> CpuAccount:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()

    def total(self) -> CpuSeconds:
        """All that was seen until now."""
        with self._lock:
            seen = list(self._seen.values())
        launchers = sum(used for is_launcher, used in seen if is_launcher)
        return CpuSeconds(launchers, sum(used for _, used in seen) - launchers)

    def look(self) -> None:
        """Looks at every process now."""
        import psutil

        for pid in list(self._pids().values()):
            try:
                launcher = psutil.Process(pid)
                below = launcher.children(recursive=True)
            except psutil.Error:
                continue
            for process in (launcher, *below):
                try:
                    with process.oneshot():
                        times = process.cpu_times()
                        key = (process.pid, process.create_time())
                except psutil.Error:
                    continue
                with self._lock:
                    self._seen[key] = (process.pid == pid, times.user + times.system)

    def _watch(self) -> None:
        while not self._end.wait(EVERY_S):
            self.look()
