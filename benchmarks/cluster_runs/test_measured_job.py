"""What is read from a running job: the ends of its measured steps, once each."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.cluster_runs import measured_job
from benchmarks.cluster_runs.measured_job import LEAST_STEPS, LINE_STEPS, MOST_STEPS, Course, MeasuredJob, Stopped, pace
from tfhet.errors import JobFailed
from tfhet.messages import MetricLine
from tfhet.record import WARM_UP_STEPS, RunSummary, Spread
from tfhet.simulate import ClusterFile, GroupFile, Simulation
from tfhet.simulate.simulation import STOPPED_ON_REQUEST

COURSE = Course(16, 24)
CLUSTER = ClusterFile("job", {"data_group": GroupFile(2, cpus=0.25), "dnn_group": GroupFile(1, cpus=0.5)})


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> MeasuredJob:
    """A job of 10 s that prints lines for its steps, each twice. At each look a host has used 1 s more."""
    used_s = {"algo-1": 0.0, "algo-2": 0.0, "algo-3": 0.0}

    def look(host: str) -> float:
        used_s[host] += 1.0
        return used_s[host]

    def start(self: MeasuredJob, *what: Any, **how: Any) -> None:
        self.cluster = CLUSTER
        groups = ("data_group", "data_group", "dnn_group")
        self.hosts = [SimpleNamespace(name=name, group=group) for name, group in zip(used_s, groups, strict=True)]  # type: ignore[misc]

    def run(self: MeasuredJob) -> RunSummary:
        for step in range(LINE_STEPS, COURSE.steps + 1, LINE_STEPS):
            for prefix in ("", "algo-3 | "):
                self.on_line(f"{prefix}{MetricLine(step, 0, 50.0, 10.0, 20.0)}")
        times = [100.0] * (COURSE.skipped - WARM_UP_STEPS) + [50.0] * COURSE.measured + [100.0] * LINE_STEPS
        return RunSummary(exit_code=0, step_ms=Spread.of(times), wait_ms=Spread.of([10.0] * len(times)))

    monkeypatch.setattr(Simulation, "__init__", start)
    monkeypatch.setattr(Simulation, "run", run)
    cgroups = {name: SimpleNamespace(cpu_s=lambda name=name: look(name)) for name in used_s}
    monkeypatch.setattr(Simulation, "cgroups", cgroups)
    moments = iter([100.0, 110.0])
    monkeypatch.setattr(measured_job, "SYSTEM", SimpleNamespace(monotonic=lambda: next(moments)))
    return MeasuredJob(CLUSTER, [], Path("run"), COURSE)


def test_only_the_measured_steps_count(job: MeasuredJob) -> None:
    found = job.measured()
    assert (found.step_ms, found.wait_pct, found.steps) == (pytest.approx(50.0), pytest.approx(20.0), COURSE.measured)
    assert found.cpu_use == pytest.approx({"data_group": 0.4, "dnn_group": 0.2})


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (RunSummary(exit_code=1, cause="a host was lost"), JobFailed),
        (RunSummary(exit_code=0), JobFailed),
        (RunSummary(exit_code=0, step_ms=Spread.of([1.0]), wait_ms=Spread.of([1.0])), JobFailed),
        (RunSummary(exit_code=0, not_limited=["algo-1: memory"]), JobFailed),
        (RunSummary(exit_code=1, cause=STOPPED_ON_REQUEST), Stopped),
    ],
)
def test_incomplete_job_is_an_error(
    job: MeasuredJob, monkeypatch: pytest.MonkeyPatch, end: RunSummary, error: type[JobFailed]
) -> None:
    monkeypatch.setattr(Simulation, "run", lambda self: end)
    with pytest.raises(JobFailed) as raised:
        job.measured()
    assert type(raised.value) is error


@pytest.mark.parametrize("ideal_s", [0.0, 5e-324, 0.01, 3.0])
def test_course_ends_with_metric_lines(ideal_s: float) -> None:
    course = Course.of(5, ideal_s, 8.0)
    assert course.skipped % LINE_STEPS == course.measured % LINE_STEPS == 0
    assert course.skipped >= 5 + LINE_STEPS and LEAST_STEPS <= course.measured <= MOST_STEPS
    assert course.steps > course.last


def test_pace_ignores_bursts() -> None:
    assert pace([100.0] * 20) == pytest.approx(100.0)
    assert pace([0.0, 0.0, 0.0, 400.0] * 8 + [0.0]) == pytest.approx(100.0, rel=0.03)
