"""A simulated job whose step time and CPU use are measured over a fixed range of its steps."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import child_environment
from benchmarks.job_scripts import SOURCE_DIR
from tfhet.clock import SYSTEM
from tfhet.errors import JobFailed
from tfhet.messages import MetricLine
from tfhet.record import WARM_UP_STEPS, RunSummary
from tfhet.simulate import ClusterFile, Simulation
from tfhet.simulate.simulation import STOPPED_ON_REQUEST

MODE: Mapping[str, Any] = {"hosts": "namespace", "start": "alone", "limits_from": "reading", "code": SOURCE_DIR}
"""Options of the simulation. No MPI starts the ranks: its own processes would use part of the hosts' CPU time."""
EMULATED = "--model emulated --epochs 1 --shuffle 0 --validation none --export false --checkpoint_every_epochs 0"
"""Arguments of the built-in trainer with an accelerator that uses time but no CPU."""
LINE_STEPS = 8
"""Steps between two metric lines, the moments at which the hosts' CPU time can be read."""
LEAST_STEPS, MOST_STEPS = 24, 512
"""Bounds of the number of measured steps."""
RUN_LIMIT_S = 600.0


@dataclass(frozen=True)
class Course:
    """The steps of one run: skipped ones, which drain the buffers; measured ones; and LINE_STEPS more, so that all
    processes still run when the measured steps end."""

    skipped: int
    measured: int

    @classmethod
    def of(cls, buffered: int, ideal_s: float, seconds: float) -> Course:
        """Returns a course.

        Args:
            buffered: number of batches that may be ready when the limits of the hosts begin.
            ideal_s: seconds of a step at best.
            seconds: wanted length of the measured part.
        """
        wanted = seconds / ideal_s if ideal_s * MOST_STEPS > seconds else MOST_STEPS
        return cls(_whole(buffered + LINE_STEPS), _whole(max(LEAST_STEPS, wanted)))

    @property
    def last(self) -> int:
        """Number of the last measured step."""
        return self.skipped + self.measured

    @property
    def steps(self) -> int:
        """Number of steps of the run."""
        return self.last + LINE_STEPS


def _whole(steps: float) -> int:
    return LINE_STEPS * math.ceil(steps / LINE_STEPS)


@dataclass(frozen=True)
class JobRun:
    """Measurements of one run, over its measured steps."""

    step_ms: float
    wait_pct: float
    """Share of the time in which rank 0 waited for data, 0 to 100."""
    steps: int
    cpu_use: Mapping[str, float]
    """CPU time that the hosts of a group used over the CPU time of their quotas, by group."""


class Stopped(JobFailed):
    """The suite's process received a request to stop while a job ran: the suite ends."""


class MeasuredJob(Simulation):
    """A job of tfhet's launcher that prints a metric line every LINE_STEPS steps."""

    def __init__(self, cluster: ClusterFile, arguments: Sequence[str], folder: Path, course: Course):
        """Args:
        cluster: the hosts, each with a number of CPUs.
        arguments: arguments of tfhet's launcher.
        folder: a new folder for the run.
        course: the steps, which the arguments ask for too.
        """
        self._course = course
        self._looks: dict[int, tuple[float, Mapping[str, float]]] = {}
        self._tail: deque[str] = deque(maxlen=40)
        self._lock = threading.Lock()
        super().__init__(
            cluster,
            ["tfhet_launcher.py", *arguments],
            folder,
            max_run_s=RUN_LIMIT_S,
            on_line=self.on_line,
            env=child_environment(),
            **MODE,
        )

    def on_line(self, line: str) -> None:
        """Handles one line of the job's log. A script and its launcher may both print a line for the same step."""
        with self._lock:
            self._tail.append(line)
            metrics = MetricLine.parse(line)
            ends = (self._course.skipped, self._course.last)
            if metrics is not None and metrics.step in ends and metrics.step not in self._looks:
                used_s = {host: group.cpu_s() for host, group in self.cgroups.items()}
                self._looks[metrics.step] = SYSTEM.monotonic(), used_s

    def measured(self) -> JobRun:
        """Runs the job.

        Raises:
            Stopped: if the suite's process was asked to stop.
            JobFailed: if the job failed, its hosts were not limited, or its log lacks a step.
        """
        summary = self.run()
        if summary.cause == STOPPED_ON_REQUEST:
            raise Stopped(STOPPED_ON_REQUEST)
        if why := self._failure(summary):
            raise JobFailed(f"the job {self.cluster.name} failed: {why}", log_tail=list(self._tail))
        assert summary.step_ms is not None and summary.wait_ms is not None
        span = slice(self._course.skipped - WARM_UP_STEPS, self._course.last - WARM_UP_STEPS)
        steps, waits = summary.step_ms.samples[span], summary.wait_ms.samples[span]
        return JobRun(pace(steps), 100.0 * sum(waits) / sum(steps), len(steps), self._cpu_use())

    def _failure(self, summary: RunSummary) -> str | None:
        if summary.exit_code:
            return summary.cause or f"exit code {summary.exit_code}"
        if summary.not_limited:
            return f"hosts without their limits: {', '.join(summary.not_limited)}"
        if summary.step_ms is None or summary.wait_ms is None:
            return "it left no record of its steps"
        return None if len(self._looks) == 2 else f"its log has {len(self._looks)} of the 2 ends of the measured steps"

    def _cpu_use(self) -> dict[str, float]:
        (begin_s, before), (end_s, after) = self._looks.values()
        found = {}
        for name, group in self.cluster.groups.items():
            used_s = sum(after[host.name] - before[host.name] for host in self.hosts if host.group == name)
            found[name] = used_s / (end_s - begin_s) / (group.hosts * (group.cpus or 1.0))
        return found


def pace(steps_ms: Sequence[float]) -> float:
    """Returns the milliseconds per step: the slope of a line through the times at which the steps ended.

    Batches of hosts that work alike arrive in bursts, and the last burst may be cut off.
    """
    ends = np.cumsum(np.asarray(steps_ms, np.float64))
    return float(np.polyfit(np.arange(ends.size), ends, 1)[0])
