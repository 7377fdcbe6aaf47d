"""One run of `benchmarks.instances`: a job on a simulated host, and what it used of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import child_environment
from benchmarks.cluster_runs.host_cpu import HostCpu
from benchmarks.cluster_runs.point import MODE
from benchmarks.instances.candidate import Candidate
from benchmarks.instances.load import InstanceLoad
from benchmarks.job_scripts.stamp import read
from tfhet.errors import JobFailed
from tfhet.record import RunSummary
from tfhet.simulate import ClusterFile, GroupFile, Simulation
from tfhet.units import GIB, HOUR_S, MIB

LINES = 40
"""The last of a run that are told when it fails."""


@dataclass(frozen=True)
class InstanceRun:
    """The time and the resources that a job took."""

    seconds: float | None
    """From the first batch asked for to the end of the last step; None: the kernel killed it for its memory."""
    accelerator_pct: float | None
    """Share of that time in which the accelerator was busy, 0 to 100."""
    cpu_pct: float | None
    """CPU time used, as a percentage of what the host may use in that time."""
    memory_pct: float | None
    """The most memory that was in use at once, file cache included, of what the host may use; None: not counted."""
    memory_limit_bytes: int
    """Memory limit of the host, scaled."""

    def usd(self, usd_per_hour: float) -> float | None:
        return None if self.seconds is None else self.seconds * usd_per_hour / HOUR_S

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class Job(Simulation):
    """A job whose host is looked at when its script begins to train, and when it ends."""

    def __init__(self, cluster: ClusterFile, command: Sequence[str], folder: Path, limit_s: float):
        self._looks: list[HostCpu] = []
        self._told: Mapping[str, str] = {}
        self._lines: list[str] = []
        self._lock = threading.Lock()
        super().__init__(
            cluster, command, folder, max_run_s=limit_s, on_line=self._hear, env=child_environment(), **MODE
        )

    def _hear(self, line: str) -> None:
        with self._lock:
            self._lines = [*self._lines[1 - LINES :], line]
            name, fields = read(line) or ("", {})
            if name in ("train_begins", "train_ends"):
                self._looks.append(HostCpu.now(self.cgroups))
                self._told = fields

    def result(self, summary: RunSummary) -> InstanceRun:
        """The result of the run; see `result_of`."""
        used = self._looks[1] - self._looks[0] if len(self._looks) == 2 else None
        return result_of(summary, self._told, used, self._lines)


def result_of(
    summary: RunSummary, told: Mapping[str, str], used: HostCpu | None, lines: Sequence[str] = ()
) -> InstanceRun:
    """The result of a run that has ended: by its record, its script's last words, and the CPU used meanwhile. Raises
    JobFailed for one that failed otherwise than by the limit of its memory, or whose host was not limited."""
    if summary.not_limited:
        raise JobFailed(f"the host could not be limited: {', '.join(summary.not_limited)}", log_tail=lines)
    (limits,), (use,) = summary.limits.values(), summary.host_use.values()
    limit_bytes = int(limits["memory_bytes"])
    peak_bytes = use["memory_peak_bytes"]
    memory_pct = None if peak_bytes is None else 100.0 * float(peak_bytes) / limit_bytes
    if use["out_of_memory_kills"]:
        return InstanceRun(None, None, None, memory_pct, limit_bytes)
    if summary.exit_code or used is None or "seconds" not in told:
        raise JobFailed(f"a run failed: {summary.cause or 'nobody heard that it ended'}", log_tail=lines)
    seconds = float(told["seconds"])
    return InstanceRun(
        seconds,
        100.0 * float(told["busy_s"]) / seconds,
        100.0 * used.total_s / (used.at_s * float(limits["cpus"])),
        memory_pct,
        limit_bytes,
    )


def measured(
    load: InstanceLoad, candidate: Candidate, folder: Path, *, scale: float, steps: int | None, limit_s: float
) -> InstanceRun:
    """One run. Raises JobFailed."""
    script = load.arguments(candidate.step_ms(load.step_ms), scale, steps)
    command = ["tfhet_launcher.py", "--train_script", "instances_train.py", "--processes_per_host", "1", *script]
    job = Job(cluster_of(candidate, scale), command, folder, limit_s)
    return job.result(job.run())


def cluster_of(candidate: Candidate, scale: float) -> ClusterFile:
    """One host with the CPUs and the memory of the type, scaled."""
    instance = candidate.instance
    cpus, memory_mib = instance.vcpus * scale, instance.memory_gib * scale * GIB / MIB
    host = GroupFile(hosts=1, instance_type=instance.name, cpus=cpus, memory_mib=memory_mib)
    return ClusterFile("instances", {"dnn_group": host})
