"""A simulated job of `benchmarks/planes/train.py`: when its first batch came, and what a window of its steps took."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks import ROOT, child_environment
from benchmarks.cluster_runs.observed_job import ObservedJob
from benchmarks.cluster_runs.point import MODE
from benchmarks.job_scripts.stamp import read
from tfhet.clock import SYSTEM
from tfhet.errors import JobFailed
from tfhet.record import RunSummary
from tfhet.simulate import ClusterFile

FIRST, WARM, BEGINS, ENDS = "first_batch", "warm", "window_begins", "window_ends"
"""Names of the moments that the script stamps, in this order."""
SCRIPT = "benchmarks/planes/train.py"
LAST_LINES = 40
ACTORS = ("Coordinator", "Actor", "Autoscal")
"""Parts of the titles of Ray's own actors, which it runs in processes like those of tasks."""


@dataclass(frozen=True)
class Window:
    """Measurements of one run."""

    step_s: float
    """Seconds of a step in the window, after the hosts were limited."""
    steps: int
    seconds: float
    """Length of the window."""
    cpu_s: Mapping[str, float]
    """CPU seconds in the window by group, of all its hosts."""
    tasks_cpu_s: float
    """CPU seconds of them that processes of Ray's tasks took, on all hosts; 0 on the other planes."""
    first_batch_s: float
    """Seconds from the start of the job to its first batch; the hosts were not limited by then."""
    rss: int
    """Bytes of the rank's process at the end, with what it shares with others."""
    host_bytes: Mapping[str, float]
    """The most memory in use at once, by group, of all its hosts: with what processes share, and file cache."""
    plane_use: Mapping[str, Mapping[str, float]]

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def tasks_cpu_s(pids: Iterable[int]) -> dict[int, float]:
    """CPU seconds so far of those of these processes in which Ray runs tasks; actors are none of them."""
    found = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            title, used = " ".join(process.cmdline()), process.cpu_times()
            if title.startswith("ray::") and not any(word in title for word in ACTORS):
                found[pid] = used.user + used.system
    return found


class WindowedJob(ObservedJob):
    """One run on one data plane, in `place`, a new folder."""

    def __init__(self, cluster: ClusterFile, plane: str, words: Sequence[str], place: Path, *, max_run_s: float):
        """words: further arguments of the launcher and of the script."""
        self._stamps: dict[str, Mapping[str, str]] = {}
        self._looks: dict[str, tuple[float, Mapping[str, float]]] = {}
        self._tasks: dict[str, Mapping[int, float]] = {}
        self._lines: list[str] = []
        self._lock = threading.Lock()
        launcher = ["scripts/launcher.py", "--strategy", "torch", "--data_plane", plane]
        given = ["--train_script", SCRIPT, "--plane", plane, *words]
        super().__init__(cluster, [*launcher, *given], place, max_run_s=max_run_s, **{**MODE, "code": ROOT})
        self._env = {**self._env, "PYTHONPATH": child_environment()["PYTHONPATH"]}

    def _has_come(self, moment: str = "steps") -> bool:
        """The hosts are limited from the moment on that the script says, rather than from its first read."""
        return WARM in self._looks if moment == "steps" else super()._has_come(moment)

    def hear(self, line: str) -> None:
        super().hear(line)
        with self._lock:
            self._lines = [*self._lines[1 - LAST_LINES :], line]
            name, fields = read(line) or ("", {})
            if name in (FIRST, WARM, BEGINS, ENDS):
                try:
                    self._look(name, fields)
                except Exception as error:  # whoever hands over lines goes on without a word
                    self._lines.append(f"[bench] {name}: {type(error).__name__}: {error}")
                    raise

    def _look(self, name: str, fields: Mapping[str, str]) -> None:
        used = {host: group.cpu_s() for host, group in self.cgroups.items()}
        self._stamps[name], self._looks[name] = fields, (SYSTEM.monotonic(), used)
        self._tasks[name] = tasks_cpu_s(pid for group in self.cgroups.values() for pid in group.pids())

    def window(self) -> Window:
        """Runs the job. Raises JobFailed for one that failed, or whose hosts were not limited."""
        began_s = SYSTEM.monotonic()
        summary: RunSummary = self.run()
        if summary.exit_code or summary.not_limited or set(self._looks) != {FIRST, WARM, BEGINS, ENDS}:
            heard = f"heard of {', '.join(self._looks) or 'no batch'}; not limited: {', '.join(summary.not_limited)}"
            raise JobFailed(f"exit code {summary.exit_code}: {summary.cause}; {heard}", log_tail=self._lines)
        peaks = {host: use["memory_peak_bytes"] for host, use in summary.host_use.items()}
        if None in peaks.values():
            raise JobFailed("the kernel does not say how much memory a host used at most")
        said, before, after = self._stamps[ENDS], self._looks[BEGINS][1], self._looks[ENDS][1]
        return Window(
            step_s=float(said["step_s"]),
            steps=int(said["steps"]),
            seconds=self._looks[ENDS][0] - self._looks[BEGINS][0],
            tasks_cpu_s=sum(used - self._tasks[BEGINS].get(pid, 0.0) for pid, used in self._tasks[ENDS].items()),
            cpu_s=self._by_group({host: used - before[host] for host, used in after.items()}),
            first_batch_s=self._looks[FIRST][0] - began_s,
            rss=int(said["rss"]),
            host_bytes=self._by_group(peaks),
            plane_use=summary.plane_use,
        )

    def _by_group(self, by_host: Mapping[str, float]) -> dict[str, float]:
        groups = dict.fromkeys(host.group for host in self.hosts)
        return {group: sum(by_host[one.name] for one in self.hosts if one.group == group) for group in groups}
