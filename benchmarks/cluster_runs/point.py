"""One point of `benchmarks.scaling`: a load on a dnn host and so many data hosts."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import child_environment
from benchmarks.cluster_runs.host_cpu import KINDS, HostCpu
from benchmarks.cluster_runs.load import Course, Ideal, ScalingLoad
from benchmarks.cluster_runs.stopped import unless_stopped
from benchmarks.job_scripts import SOURCE_DIR
from tfhet.errors import JobFailed
from tfhet.messages import MetricLine
from tfhet.record import WARM_UP_STEPS, RunSummary
from tfhet.simulate import ClusterFile, GroupFile, Simulation

LINES = 32
"""Metric lines in the measured part of a run, at most."""
WINDOWS = 4
"""Into so many parts the measured steps of a run are divided: the mean of each is a sample."""
MODE: Mapping[str, Any] = {"hosts": "namespace", "start": "alone", "limits_from": "reading", "code": SOURCE_DIR}
"""How hosts are simulated. MPI, whose own processes would take part of the CPU, starts no ranks."""


@dataclass(frozen=True)
class Point:
    """Measurements at one point, in one run."""

    data_hosts: int
    windows_ms: tuple[float, ...]
    """Milliseconds a step took in the mean, window by window."""
    wait_pct: float
    """Share of the measured time in which a rank waited for data, 0 to 100."""
    steps: int
    """Measured."""
    seconds: float
    """From the first of the two looks at the hosts' CPU to the second."""
    quota_s: float
    """CPU seconds that all hosts were allowed in that time."""
    used_s: Mapping[str, float]
    """CPU seconds by host."""
    throttled_s: Mapping[str, float]
    kinds_s: Mapping[str, float]
    """CPU seconds by kind of process, on all hosts."""

    @property
    def step_s(self) -> float:
        """Seconds of a step, in the mean of the run."""
        return 1e-3 * sum(self.windows_ms) / len(self.windows_ms)

    @property
    def trainers_s(self) -> float:
        """CPU seconds a step that all trainers used: they receive, run the stages behind the cut, and hand over."""
        return self.kinds_s["trainers"] / self.steps

    def shares(self, ideal: Ideal) -> dict[str, float]:
        """Where the CPU time of a step goes that is not what a batch costs apart, each as a percentage of that."""
        least_s = ideal.ranks * (ideal.stages_s + ideal.wire_s)
        each = {kind: used / self.steps for kind, used in self.kinds_s.items()}
        work = each["workers"] + each["trainers"] - least_s
        idle = (self.quota_s - sum(self.used_s.values())) / self.steps
        parts = {"launchers": each["launchers"], "dispatcher": each["dispatcher"], "work": work, "not used": idle}
        return {name: 100.0 * part / least_s for name, part in parts.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "windows_ms": list(self.windows_ms),
        }


class Job(Simulation):
    """A run whose hosts are looked at when the measured steps begin and when they end."""

    def __init__(
        self,
        cluster: ClusterFile,
        command: Sequence[str],
        folder: Path,
        course: Course,
        limit_s: float,
        ranks: int = 1,
    ):
        """ranks: hosts that train."""
        self._course, self._ranks = course, ranks
        self._looks: list[HostCpu] = []
        self._lines: list[str] = []
        self._lock = threading.Lock()
        super().__init__(
            cluster,
            command,
            folder,
            max_run_s=limit_s,
            on_line=self._hear,
            env=child_environment(),
            **MODE,
        )

    def _hear(self, line: str) -> None:
        with self._lock:
            self._lines = [*self._lines[-39:], line]
            told = MetricLine.parse(line)
            ends = (self._course.skipped, self._course.skipped + self._course.measured)
            if told and told.step in ends:
                self._looks.append(HostCpu.now(self.cgroups))

    def point(self, summary: RunSummary, cpus: float) -> Point:
        """The measurements of the run, whose hosts were allowed `cpus` each. Raises JobFailed, or Stopped."""
        unless_stopped(summary)
        course, hosts = self._course, len(self.hosts)
        if summary.exit_code or summary.step_ms is None or summary.wait_ms is None or len(self._looks) != 2:
            unheard = f"of its {course.steps} steps, {len(self._looks)} of 2 were heard of"
            why = summary.cause or (unheard if summary.step_ms else f"{unheard}, and it left no record of them")
            raise JobFailed(f"a run with {hosts - self._ranks} data hosts failed: {why}", log_tail=self._lines)
        first = course.skipped - WARM_UP_STEPS
        steps = summary.step_ms.samples[first : first + course.measured]
        waits = summary.wait_ms.samples[first : first + course.measured]
        used = self._looks[1] - self._looks[0]
        return Point(
            hosts - self._ranks,
            windows(steps),
            100.0 * sum(waits) / sum(steps),
            len(steps),
            used.at_s,
            cpus * hosts * used.at_s,
            used.used_s,
            used.throttled_s,
            {kind: used.of(kind) for kind in KINDS},
        )


def measured(
    load: ScalingLoad, ideal: Ideal, data_hosts: int, channel: Path, folder: Path, seconds: float, limit_s: float
) -> Point:
    """One run. Raises JobFailed."""
    course = Course.of(data_hosts + load.ranks, ideal.at(data_hosts), seconds, LINES)
    command = ["tfhet_launcher.py", *load.arguments(course.steps)]
    cluster = cluster_of(data_hosts, ideal.cpus, channel, load.ranks)
    job = Job(cluster, command, folder, course, limit_s, load.ranks)
    return job.point(job.run(), ideal.cpus)


def cluster_of(data_hosts: int, cpus: float, channel: Path, ranks: int = 1) -> ClusterFile:
    """Hosts with one rank each, and data hosts, all with the same share of a CPU."""
    groups = {"data_group": GroupFile(hosts=data_hosts, instance_type="ml.c5.large", cpus=cpus)} if data_hosts else {}
    groups["dnn_group"] = GroupFile(hosts=ranks, instance_type="ml.p3.2xlarge", cpus=cpus)
    return ClusterFile("scaling", groups, {"training": str(channel)})


def windows(steps_ms: Sequence[float]) -> tuple[float, ...]:
    """The mean of each of WINDOWS equal parts. Steps come in bursts, batch after batch of hosts that work alike, so a
    single step says little."""
    size = len(steps_ms) // WINDOWS
    return tuple(sum(steps_ms[i * size : (i + 1) * size]) / size for i in range(WINDOWS))
