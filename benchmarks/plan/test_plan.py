"""How cases are drawn and predicted, and what the runs say of the predictions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster_runs.measured_job import Course, JobRun, Stopped
from benchmarks.plan import draw as plan_draw, suite as plan
from benchmarks.plan.case import LAUNCHER_CPUS, LOADS, LoadCosts, PlanCase, PlanLoad
from benchmarks.plan.draw import KINDS, draw
from benchmarks.plan.outcome import PlanOutcome, figures_of
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.launch.settings import LaunchSettings
from tfhet.plan import Resource, Where as Place
from tfhet.planes.tf_service import ServiceSettings
from tfhet.record import Figure, Record
from tfhet.trainer.settings import Settings


def answer(positions: Sequence[int] = (0, 5, 6), times: float = 1.0, whole: bool = False) -> dict[str, Any]:
    """20 ms of CPU a batch before position 5 and 2 ms after it; the wire: 1 s a GB at each end."""
    sizes = {0: ("uint8", 6_000_000), 5: ("uint8", 6_000_000), 6: ("float32", 24_000_000)}
    remote_s = {0: 0.004, 5: 0.020, 6: 0.022}
    cuts = [
        {
            "position": at,
            "dtype": sizes[at][0],
            "bytes": sizes[at][1],
            "remote_s": [times * remote_s[at]] * 3,
            "local_s": [times * (0.022 - remote_s[at])] * 3,
            "wire_s": [[times * sizes[at][1] / 1e9] * 2] * 3,
        }
        for at in positions
    ]
    return {"cuts": cuts, "whole_s": [times * 0.025] * 3 if whole or not positions else []}


def costs(load: PlanLoad, **what: Any) -> LoadCosts:
    return LoadCosts.of(load, answer(**what))


KNOWN = {load: costs(load, whole=True) for load in LOADS}
CASE = PlanCase(7, Resource.DATA_CPUS, 0.8, LOADS[0], Place.DATA, 5, 0.4, 0.2, 2, 1, 50.0, data_mbit_per_s=1000.0)


def outcome(step_ms: float, dnn: float = 0.5, data: float = 0.9, case: PlanCase = CASE) -> PlanOutcome:
    """A run whose dnn host and data hosts used these shares of their CPUs."""
    return PlanOutcome(case, answer([5]), JobRun(step_ms, 50.0, 24, {"dnn_group": dnn, "data_group": data}))


# The prediction


def test_prediction_follows_from_measured_parts() -> None:
    found = CASE.prediction(costs(CASE.load, positions=[5]))
    wire_s, launcher = 6_000_000 / 1e9, LAUNCHER_CPUS.value
    assert found.ceilings_s[Resource.DATA_CPUS].value == pytest.approx((0.020 + wire_s) / (2 * (0.2 - launcher)))
    assert found.ceilings_s[Resource.DNN_CPUS].value == pytest.approx((0.002 + wire_s) / (0.4 - launcher))
    assert found.binding is Resource.DATA_CPUS and found.step_s.low < found.step_s.value < found.step_s.high
    alone = replace(CASE, place=Place.TRAINER, data_hosts=0)
    assert alone.positions == []
    assert alone.prediction(costs(CASE.load, positions=[])).step_s.value == pytest.approx(0.025 / (0.4 - launcher))


def test_launcher_and_trainer_accept_the_arguments() -> None:
    settings, rest = LaunchSettings.parse(CASE.arguments(99))
    trainer, service = Settings.parse(rest), ServiceSettings.of(settings.planes)
    assert (service.data_host_workers, service.dnn_host_workers) == (1, 0)
    assert (trainer.cut, trainer.batch_size, trainer.step_ms, trainer.steps_per_epoch) == (5, 4096, 50.0, 99)
    groups = CASE.cluster("/data").groups
    assert (groups["data_group"].hosts, groups["data_group"].cpus, groups["data_group"].mbit_per_s) == (2, 0.2, 1000.0)
    assert groups["dnn_group"].mbit_per_s is None


# The draw


def test_drawn_case_binds_as_wanted_and_fits() -> None:
    for number in range(3 * len(KINDS)):
        case = draw(KNOWN, 0, number)
        found = case.prediction(KNOWN[case.load])
        assert case.kind is KINDS[number % len(KINDS)] is found.binding
        assert {found.binding, found.runner_up} <= set(KINDS)
        assert 0.44 <= found.ceilings_s[found.runner_up].value / found.step_s.value <= 0.99
        assert plan_draw.SHORTEST_S <= found.step_s.value <= plan_draw.LONGEST_S
        assert case.busiest_cpus <= plan_draw.MOST_OF_A_CPU
        assert case == draw(KNOWN, 0, number) != draw(KNOWN, 1, number)
    assert replace(CASE, dnn_cpus=0.5, data_cpus=0.3).busiest_cpus == pytest.approx(0.6)


def test_impossible_draw_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_draw, "TRIES", 20)
    monkeypatch.setattr(plan_draw, "LONGEST_S", 0.0)
    with pytest.raises(TfhetError):
        draw(KNOWN, 0, 1)


# The outcome


@pytest.mark.parametrize(
    ("step_ms", "dnn", "data", "case", "bound", "is_clear"),
    [
        (100.0, 0.5, 0.97, CASE, Resource.DATA_CPUS, True),
        (100.0, 0.97, 0.5, CASE, Resource.DNN_CPUS, True),
        (51.0, 0.6, 0.9, CASE, Resource.ACCELERATOR, True),
        (51.0, 0.6, 0.97, CASE, Resource.ACCELERATOR, False),  # an accelerator of 50 ms was used for 98 %
        (100.0, 0.9, 0.98, replace(CASE, place=Place.EVERYWHERE), Resource.ALL_CPUS, True),
        (100.0, 0.6, 0.5, replace(CASE, data_mbit_per_s=250.0), Resource.DATA_NETWORK, True),
    ],
)
def test_most_used_resource_bound(
    step_ms: float, dnn: float, data: float, case: PlanCase, bound: Resource, is_clear: bool
) -> None:
    found = outcome(step_ms, dnn, data, case)
    assert (found.bound, found.is_clear) == (bound, is_clear)


def test_figures_are_errors_and_shares() -> None:
    case = replace(CASE, accelerator_ms=10.0)
    step_ms = 1e3 * outcome(100.0, case=case).prediction.step_s.value
    cases = [outcome(step_ms / factor, case=case) for factor in (1.02, 0.96, 1.30)]
    cases += [outcome(step_ms / 1.1, 0.95, 0.5, case), outcome(step_ms, 0.9, 0.9, case)]
    found = {name: figure.value for name, figure in figures_of(cases).items()}
    assert found["plan.cases"] == 5 and found["plan.unclear_cases"] == 1
    assert found["plan.error_median_pct"] == pytest.approx(4.0) and found["plan.error_most_pct"] == pytest.approx(30.0)
    assert found["plan.error_p95_pct"] == pytest.approx(26.0, abs=0.1)
    assert found["plan.interval_holds_pct"] == 80.0 and found["plan.binding_right_pct"] == 75.0
    assert found["plan.published.aws_tf_pct"] < 15.0


def test_cpu_bound_cases_are_so_by_prediction_or_run() -> None:
    fed = replace(CASE, accelerator_ms=5_000.0)
    accelerator = outcome(5_000.0, case=fed)
    assert not [name for name in figures_of([accelerator]) if "cpu_bound" in name]
    missed = outcome(10_000.0, case=fed)
    found = figures_of([accelerator, missed, outcome(100.0)])
    assert found["plan.cpu_bound.interval_holds_pct"].n == 2
    assert found["plan.cpu_bound.error_most_pct"].value == pytest.approx(50.0, abs=0.1)


# The suite


class PlayedJob:
    """Jobs whose steps are as predicted at twice the known costs; the second one fails."""

    error: type[JobFailed] = JobFailed
    drawn: Iterator[PlanCase]

    def __init__(self, cluster: object, arguments: Sequence[str], folder: Path, course: Course):
        self._case = next(self.drawn)
        assert arguments == self._case.arguments(course.steps)

    def measured(self) -> JobRun:
        if self._case.number == 1:
            raise self.error("a host died")
        doubled = LoadCosts.of(self._case.load, answer(self._case.positions, times=2.0))
        step_ms = 1e3 * self._case.prediction(doubled).step_s.value
        return JobRun(step_ms, 50.0, 24, {"dnn_group": 0.5, "data_group": 0.5})


def test_costs_right_before_the_run_count(monkeypatch: pytest.MonkeyPatch) -> None:
    quotas: list[float] = []

    def costs_of(load: PlanLoad, channel: Path, positions: Sequence[int] | None, cpus: float) -> dict[str, Any]:
        quotas.append(cpus)
        return answer(whole=True) if positions is None else answer(positions, times=2.0)

    monkeypatch.setattr(plan, "costs_of", costs_of)
    monkeypatch.setattr(plan, "MeasuredJob", PlayedJob)
    monkeypatch.setattr(plan, "idle_loops", nullcontext)
    monkeypatch.setattr(plan.kernel, "require", lambda what: None)
    monkeypatch.setattr(plan.job_data, "write_channel", lambda *_: None)
    parser = argparse.ArgumentParser()
    plan.SUITE.options(parser)
    options = parser.parse_args(["--cases", "3"])
    drawn = [draw(KNOWN, options.seed, number) for number in range(3)]
    PlayedJob.drawn = iter([*drawn, *drawn])
    record = plan.SUITE.run(options, lambda event: None, [])
    assert quotas == [*[plan.COSTS_CPUS] * len(LOADS), *(case.busiest_cpus for case in drawn)]
    assert record.figures["plan.cases"].value == 2 and record.figures["plan.error_most_pct"].value < 0.01
    assert len(record.details["failed"]) == 1 and not plan.SUITE.is_kept(record)
    assert any("a host died" in line for line in plan.SUITE.lines(record))
    PlayedJob.error = Stopped
    with pytest.raises(Stopped):
        plan.SUITE.run(options, lambda event: None, [])
    with pytest.raises(UsageError):
        plan.SUITE.run(parser.parse_args(["--cases", "0"]), lambda event: None, [])


GOOD = dict.fromkeys(plan.MOST, 1.0) | dict.fromkeys(plan.LEAST, 95.0)


@pytest.mark.parametrize(
    ("name", "value"), [*((name, 16.0) for name in plan.MOST), *((name, 80.0) for name in plan.LEAST)]
)
def test_each_bound_fails_the_suite(name: str, value: float) -> None:
    def record(values: dict[str, float], failed: dict[str, str] | None = None) -> Record:
        figures = {key: Figure.single(each, unit="%") for key, each in values.items()}
        return Record("plan", figures, details={"failed": failed or {}})

    assert plan.SUITE.is_kept(record(GOOD))
    assert not plan.SUITE.is_kept(record(GOOD, {"case 1": "a host died"}))
    assert not plan.SUITE.is_kept(record({**GOOD, name: value}))
    assert not plan.SUITE.is_kept(record({key: each for key, each in GOOD.items() if key != name}))
