"""Memory and CPU of the ranks and of the workers that they start, from outside of their processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
from pathlib import Path
from typing import Any

import psutil

from tfhet.clock import SYSTEM, Clock
from tfhet.record import UsageSample
from tfhet.telemetry import GpuMonitor

PSS_EVERY = 5
"""Number of samples between two measurements of shared memory, which cost milliseconds per process."""
GROWN = 1.1
"""Growth of the resident memory after which shared memory is measured at once: a script's memory grows at its start."""
MOST_SAMPLES = 20_000
SHM = "/dev/shm"
"""Loader workers pass their batches through it. A batch on its way is in no process's memory."""


class TreeUsage:
    """Samples the processes below one process, and the GPUs of the host. notes: folder whose files name the ranks."""

    def __init__(self, notes: Path, clock: Clock = SYSTEM):
        self.samples: list[UsageSample] = []
        self._gpus: GpuMonitor | None = None
        self._gpu_peaks: list[int] = []
        self._notes, self._clock = notes, clock
        self._root: psutil.Process | None = None
        self._ranks: dict[int, int] = {}
        self._seen: set[Path] = set()
        self._cpu_s: dict[int, float] = {}
        self._at_s: float | None = None
        self._count = 0
        self._peaks: dict[str, float] = {}
        self._rss_at_pss = 0
        self._shm_before = _shm_used()
        self._most_processes = 0

    def follow(self, pid: int, gpus: GpuMonitor | None = None) -> None:
        """Samples from now on. gpus: of the host, started."""
        self._gpus = gpus
        with contextlib.suppress(psutil.Error):
            self._root = psutil.Process(pid)
            self.sample()

    def sample(self) -> None:
        """Measures once; a process that ends meanwhile is omitted."""
        if self._root is None:
            return
        self._find_ranks()
        now_s, cpu_s, rss = self._clock.monotonic(), dict[int, float](), 0
        took_s = 0.0 if self._at_s is None else now_s - self._at_s
        cpus = dict[str, float]()
        processes: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            processes = [self._root, *self._root.children(recursive=True)]
        owners = self._owners(processes)
        for each in processes:
            with contextlib.suppress(psutil.Error, OSError):
                with each.oneshot():
                    times = each.cpu_times()
                    rss += each.memory_info().rss
                cpu_s[each.pid] = times.user + times.system
                used_s = max(0.0, cpu_s[each.pid] - self._cpu_s.get(each.pid, 0.0))
                owner = owners.get(each.pid, "command")
                cpus[owner] = cpus.get(owner, 0.0) + (used_s / took_s if took_s else 0.0)
        if took_s and len(self.samples) < MOST_SAMPLES:
            host = socket.gethostname()
            self.samples.append(UsageSample(host, self._clock.wall() - took_s, took_s, "watch", cpus))
        now = {"memory_rss_peak_bytes": rss, "memory_shared_peak_bytes": _shm_used() - self._shm_before}
        if self._count % PSS_EVERY == 0 or rss > GROWN * self._rss_at_pss:
            self._rss_at_pss = rss
            now |= _pss(processes, owners)
        for name, value in now.items():
            self._peaks[name] = max(self._peaks.get(name, 0), value)
        in_gpus = [memory_bytes for _, memory_bytes in self._gpus.latest] if self._gpus else []
        self._gpu_peaks = [max(pair) for pair in itertools.zip_longest(self._gpu_peaks, in_gpus, fillvalue=0)]
        self._most_processes = max(self._most_processes, len(processes))
        self._at_s, self._cpu_s, self._count = now_s, cpu_s, self._count + 1

    def facts(self) -> dict[str, Any]:
        """Peaks of memory, and the mean CPUs of each rank and of its workers since the first rank read data."""
        if self._gpus is not None:
            self._gpus.stop()
        samples = [each for each in self.samples if any(name.startswith("rank-") for name in each.processes)]
        total_s = sum(each.dur_s for each in samples)
        names = dict.fromkeys(name for each in samples for name in each.processes if name != "command")
        means = {name: sum(each.processes.get(name, 0.0) * each.dur_s for each in samples) / total_s for name in names}
        peaks: dict[str, Any] = {name: value for name, value in self._peaks.items() if value}
        if any(self._gpu_peaks):
            peaks["gpus_memory_peak_bytes"] = self._gpu_peaks
        return {**peaks, "cpus_used": {name: round(value, 2) for name, value in means.items()}}

    def _find_ranks(self) -> None:
        """Learns which process is which rank from the first line of each new file."""
        for path in self._notes.glob("notes-*.jsonl"):
            if path not in self._seen:
                with contextlib.suppress(OSError, ValueError, KeyError), open(path, encoding="utf-8") as file:
                    first = json.loads(file.readline())
                    self._ranks[int(first["pid"])] = int(first["rank"])
                    self._seen.add(path)

    def _owners(self, processes: list[psutil.Process]) -> dict[int, str]:
        """Returns the name of the rank, or of its workers, to which each process belongs."""
        owners: dict[int, str] = {}
        for each in processes:  # parents come before their children
            with contextlib.suppress(psutil.Error):
                rank, above = self._ranks.get(each.pid), owners.get(each.ppid(), "")
                if rank is not None:
                    owners[each.pid] = f"rank-{rank}"
                elif above:
                    owners[each.pid] = above if above.endswith(" workers") else f"{above} workers"
        return owners


def _pss(processes: list[psutil.Process], owners: dict[int, str]) -> dict[str, int]:
    """Returns the memory of all processes and of loader workers, shared pages counted once."""
    of_all, of_workers = 0, 0
    for each in processes:
        with contextlib.suppress(psutil.Error, OSError):
            pss = each.memory_full_info().pss
            of_all += pss
            of_workers += pss if owners.get(each.pid, "").endswith(" workers") else 0
    return {"memory_pss_peak_bytes": of_all, "memory_loaders_peak_bytes": of_workers}


def _shm_used() -> int:
    """Returns the bytes in /dev/shm, of all programs; 0 if there is none."""
    with contextlib.suppress(OSError):
        return int(psutil.disk_usage(SHM).used)
    return 0
