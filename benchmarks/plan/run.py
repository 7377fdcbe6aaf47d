"""One run of a case of `benchmarks.plan`: phase after phase in one job, whose limits change as it goes on."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import child_environment, prefer
from benchmarks.cluster_runs.host_cpu import DISPATCHER, LAUNCHERS, TRAINERS, WORKERS, HostCpu
from benchmarks.cluster_runs.pace import pace
from benchmarks.cluster_runs.point import MODE
from benchmarks.cluster_runs.stopped import unless_stopped
from benchmarks.plan.case import DNN, STEP_FILE, PlanCase
from benchmarks.plan.phase import AGAIN, DRAWN, Course, Phase
from tfhet.clock import SYSTEM
from tfhet.container import Limits
from tfhet.errors import JobFailed
from tfhet.messages import MetricLine
from tfhet.record import WARM_UP_STEPS, RunSummary
from tfhet.simulate import Simulation
from tfhet.simulate.namespace_hosts import NamespaceHosts
from tfhet.simulate.scale import limits_of

BEGIN_LIMIT_S, PHASE_LIMIT_S = 60.0, 25.0
"""A job may take so long to begin and to end, and for each of its phases."""


@dataclass(frozen=True)
class Ran:
    """Measurements of one run. CPU seconds are those of a step, of all hosts, in the first phase."""

    steps_ms: Mapping[str, float]
    """By phase."""
    counted: Mapping[str, int]
    """Steps, by phase."""
    workers_s: float
    trainer_s: float
    dispatcher_s: float
    launchers_s: float
    used: Mapping[str, float]
    """By host: CPUs that it used, over those that it had."""
    seconds: float
    """The whole run."""

    @property
    def drawn_ms(self) -> float:
        """As drawn, before the others and after them."""
        both = [(self.steps_ms[name], self.counted[name]) for name in (DRAWN, AGAIN) if name in self.steps_ms]
        return sum(ms * steps for ms, steps in both) / sum(steps for _, steps in both)

    @property
    def launcher_cpus(self) -> float:
        """CPUs that one host's launcher took."""
        return self.launchers_s / (1e-3 * self.steps_ms[DRAWN]) / len(self.used)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class PlanJob(Simulation):
    """The job of a case."""

    def __init__(self, case: PlanCase, phases: Sequence[Phase], channel: Path, folder: Path):
        self._course = Course(phases, self._change)
        self._looks: list[HostCpu] = []
        self._lines: list[str] = []
        self._lock = threading.Lock()
        self._began_s = SYSTEM.monotonic()
        cluster = case.cluster(str(channel))
        steps = sum(phase.most_steps for phase in phases) + 8
        super().__init__(
            cluster,
            ["tfhet_launcher.py", *case.arguments(steps)],
            folder,
            max_run_s=BEGIN_LIMIT_S + PHASE_LIMIT_S * len(phases),
            on_line=self._hear,
            env=child_environment(),
            **MODE,
        )
        self._limits, _ = limits_of(cluster, {host.name: host.group for host in self.hosts})

    def _change(self, case: PlanCase | None, step_ms: float) -> None:
        if case is None and len(self._looks) == 1:  # the first phase is over: while its limits hold
            self._looks.append(HostCpu.now(self.cgroups))
        hosts = self._backend
        assert isinstance(hosts, NamespaceHosts)
        for host in self.hosts:
            is_dnn = host.group == DNN
            limits, mbit = self._limits[host.name], None
            prefer(hosts.cgroups[host.name])
            if case is None:
                hosts.cgroups[host.name].limit(Limits(cpu_set=limits.cpu_set))
            else:
                cpus = case.dnn_cpus if is_dnn else case.data_cpus
                hosts.cgroups[host.name].limit(Limits(cpus, limits.cpu_set))
                mbit = case.dnn_mbit_per_s if is_dnn else case.data_mbit_per_s
            if limits.bits_per_s is not None and mbit is not None:
                hosts.network.limit(host.name, mbit * 1e6)
            if is_dnn:
                file = host.paths.base / STEP_FILE
                file.with_suffix(".new").write_text(f"{step_ms:.3f}", encoding="ascii")
                file.with_suffix(".new").replace(file)
        if case is not None and not self._looks:
            self._looks.append(HostCpu.now(self.cgroups))

    def _hear(self, line: str) -> None:
        with self._lock:
            self._lines = [*self._lines[-39:], line]
            told = MetricLine.parse(line)
            if told is None:
                return
            self._course.heard(told.step, told.step_ms * told.wait_pct / 100.0)

    def ran(self, summary: RunSummary) -> Ran:
        """The measurements of the run. Raises JobFailed."""
        course = self._course
        if summary.exit_code or summary.step_ms is None or not course.is_over or len(self._looks) != 2:
            why = summary.cause or f"{len(course.spans)} of {len(course.phases)} phases were gone through"
            raise JobFailed(f"a run of the suite `plan` failed: {why}", log_tail=self._lines)
        samples = summary.step_ms.samples
        spans = {
            name: samples[first - WARM_UP_STEPS : last - WARM_UP_STEPS] for name, (first, last) in course.spans.items()
        }
        used = self._looks[1] - self._looks[0]
        steps = used.at_s / (1e-3 * pace(spans[DRAWN]))
        drawn = course.phases[0].case
        had = {host.name: drawn.dnn_cpus if host.group == DNN else drawn.data_cpus for host in self.hosts}
        return Ran(
            steps_ms={name: pace(each) for name, each in spans.items()},
            counted={name: len(each) for name, each in spans.items()},
            workers_s=used.of(WORKERS) / steps,
            trainer_s=used.of(TRAINERS) / steps,
            dispatcher_s=used.of(DISPATCHER) / steps,
            launchers_s=used.of(LAUNCHERS) / steps,
            used={name: used.used_s[name] / used.at_s / cpus for name, cpus in had.items()},
            seconds=SYSTEM.monotonic() - self._began_s,
        )


def run(case: PlanCase, phases: Sequence[Phase], channel: Path, folder: Path) -> Ran:
    """Runs the case in `folder`, which is new. Raises JobFailed, or Stopped."""
    job = PlanJob(case, phases, channel, folder)
    return job.ran(unless_stopped(job.run()))
