"""how cases are drawn, what a run is led through, which resource bound, and what is kept of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster_runs.cold_loads import Calm
from benchmarks.cluster_runs.pace import pace
from benchmarks.cluster_runs.stopped import Stopped
from benchmarks.plan import draw as plan_draw, freeze as plan_freeze, run as plan_run, suite as plan
from benchmarks.plan.case import CPUS, FIELDS, HELD_OUT, LOADS, MORE, TRIED, Frozen, Measured, PlanCase, PlanLoad
from benchmarks.plan.draw import KINDS, draw, fits
from benchmarks.plan.gauge import COSTS_CPUS
from benchmarks.plan.outcome import PlanOutcome, figures_of
from benchmarks.plan.phase import AGAIN, DRAWN, SKIPPED, Course, Phase, phases_of
from benchmarks.plan.published import predictions
from benchmarks.plan.run import Ran
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.launch.settings import LaunchSettings
from tfhet.plan import Where as Place
from tfhet.plan.ceiling import Resource
from tfhet.planes.tf_service import ServiceSettings
from tfhet.record import Figure, Interval, Record, RunSummary
from tfhet.simulate.simulation import STOPPED_ON_REQUEST
from tfhet.trainer.settings import Settings


def said_of(load: PlanLoad, times: float = 1.0) -> dict[str, Any]:
    """20 ms of CPU a batch before the last stage, 2 ms behind it; the wire takes 1 s a GB at each of its ends; and
    `times` as much."""
    sizes = {0: ("uint8", 6_000_000), 5: ("uint8", 6_000_000), 6: ("float32", 24_000_000)}
    remote_s = {0: 0.004, 5: 0.020, 6: 0.022}
    cuts = [
        {
            "position": at,
            "dtype": dtype,
            "bytes": size,
            "remote_s": [times * remote_s[at]] * 3,
            "local_s": [times * (0.022 - remote_s[at])] * 3,
            "wire_s": [[times * size / 1e9, times * size / 1e9]] * 3,
        }
        for at, (dtype, size) in sizes.items()
    ]
    return {"cuts": cuts, "whole_s": [times * 0.025] * 3}


FROZEN = Frozen(
    {load: Measured.of(load, said_of(load)) for load in LOADS},
    Interval(1.1, 1.0, 1.2),
    Interval(0.003, 0.002, 0.004),
    Interval(0.5, 0.4, 0.6),
)
CASE = PlanCase(7, Resource.DATA_CPUS, 0.8, TRIED[0], Place.DATA, 1, 5, 0.4, 0.2, 2, 1, 50.0, data_mbit_per_s=1000.0)
THREE = (Resource.DATA_CPUS, Resource.ACCELERATOR, Resource.DATA_NETWORK)


def ran(drawn: float, *relaxed: float, again: float | None = None, of: Sequence[Resource] = THREE) -> Ran:
    more = {one.value: ms for one, ms in zip(of, relaxed, strict=True)}
    steps = {DRAWN: drawn, **more, AGAIN: drawn if again is None else again}
    return Ran(steps, dict.fromkeys(steps, 20), 0.02, 0.01, 0.0, 0.001, {"algo-1": 1.0}, 30.0)


def outcome(measured: Ran, case: PlanCase = CASE, relaxed: tuple[Resource, ...] = THREE) -> PlanOutcome:
    return PlanOutcome(case, relaxed, said_of(case.load), measured, 80.0)


# The prediction


def test_a_case_is_predicted_by_the_model_from_what_was_measured_apart() -> None:
    found = CASE.prediction(FROZEN)
    wire_s = 6_000_000 / 1e9
    assert found.ceilings_s[Resource.DATA_CPUS].value == pytest.approx(1.1 * (0.020 + wire_s) / (2 * (0.2 - 0.003)))
    assert found.ceilings_s[Resource.DNN_CPUS].value == pytest.approx(1.1 * (0.002 + wire_s) / (0.4 - 0.003))
    assert found.binding is Resource.DATA_CPUS
    alone = replace(CASE, place=Place.TRAINER, data_hosts=0).prediction(FROZEN)
    assert alone.step_s.value == pytest.approx(1.1 * 0.025 / (0.4 - 0.003))


def test_what_batches_cost_right_before_the_run_is_what_the_prediction_takes() -> None:
    said = said_of(CASE.load)
    (paid,) = (cut for cut in said["cuts"] if cut["position"] == CASE.position)
    dearer = {"cuts": [{**paid, "remote_s": [0.040] * 3}], "whole_s": []}
    now = replace(outcome(ran(100, 80, 99, 99)), costs=dearer)
    assert now.prediction(FROZEN) == CASE.prediction(FROZEN.renewed(CASE.load, dearer))
    ratio = now.prediction(FROZEN).step_s.value / CASE.prediction(FROZEN).step_s.value
    assert ratio == pytest.approx(0.046 / 0.026)
    whole = {"cuts": [], "whole_s": [0.05] * 3}
    alone = replace(CASE, place=Place.TRAINER, data_hosts=0)
    renewed = alone.prediction(FROZEN.renewed(CASE.load, whole)).step_s.value
    assert renewed == pytest.approx(2 * alone.prediction(FROZEN).step_s.value)


def test_loads_are_tried_or_held_out_and_one_chain_is_held_out() -> None:
    assert not set(HELD_OUT) & set(TRIED) and set(LOADS) == {*HELD_OUT, *TRIED}
    assert {load.chain for load in HELD_OUT} - {load.chain for load in TRIED} == {"imagenet-eval"}
    held_out = replace(CASE, load=HELD_OUT[2])
    assert outcome(ran(100, 80, 99, 99), held_out).is_held_out and not outcome(ran(100, 80, 99, 99)).is_held_out


def test_a_case_has_no_resource_that_it_has_without_a_limit() -> None:
    assert CASE.resources(FROZEN) == [
        Resource.DATA_CPUS,
        Resource.ACCELERATOR,
        Resource.DATA_NETWORK,
        Resource.DNN_CPUS,
    ]
    unlimited = replace(CASE, data_mbit_per_s=None)
    assert Resource.DATA_NETWORK in unlimited.prediction(FROZEN).ceilings_s
    assert Resource.DATA_NETWORK not in unlimited.resources(FROZEN)


def test_the_job_of_a_case_is_told_what_was_drawn() -> None:
    settings, left = LaunchSettings.parse(CASE.arguments(99))
    trainer = Settings.parse(left)
    service = ServiceSettings.of(settings.planes)
    assert (service.data_host_workers, service.dnn_host_workers) == (1, 0)
    assert (trainer.cut, trainer.batch_size, trainer.step_ms, trainer.steps_per_epoch) == (5, 4096, 50.0, 99)
    assert trainer.step_file and trainer.log_every == 1
    groups = CASE.cluster("/data").groups
    assert (groups["data_group"].hosts, groups["data_group"].cpus, groups["data_group"].mbit_per_s) == (2, 0.2, 1000.0)
    assert groups["dnn_group"].mbit_per_s is None


def test_more_of_a_resource_changes_nothing_else() -> None:
    case = replace(CASE, dnn_mbit_per_s=100.0)
    for resource, changed in (
        (Resource.ACCELERATOR, {"accelerator_ms": 50.0 / MORE}),
        (Resource.ALL_CPUS, {"dnn_cpus": 0.4 * MORE, "data_cpus": 0.2 * MORE}),
        (Resource.DATA_NETWORK, {"data_mbit_per_s": 1000.0 * MORE}),
        (Resource.DNN_NETWORK, {"dnn_mbit_per_s": 100.0 * MORE}),
    ):
        assert case.relaxed(resource) == replace(case, **changed)  # type: ignore[arg-type]
    for resource in FIELDS:
        assert case.relaxed(resource) != case


# The draw


def test_the_cases_of_a_seed_are_the_same_each_time_and_others_for_another_seed() -> None:
    drawn = [draw(FROZEN, 3, number) for number in range(6)]
    assert drawn == [draw(FROZEN, 3, number) for number in range(6)]
    assert drawn != [draw(FROZEN, 4, number) for number in range(6)]


def test_every_kind_of_resource_is_to_bind_in_its_turn_and_the_model_agrees() -> None:
    for number in range(3 * len(KINDS)):
        case = draw(FROZEN, 0, number)
        found = case.prediction(FROZEN)
        assert case.kind is KINDS[number % len(KINDS)] is found.binding
        assert {found.binding, found.runner_up} <= set(FIELDS)
        second = found.ceilings_s[found.runner_up].value / found.step_s.value
        assert 0.44 <= second <= 0.99
        assert plan_draw.SHORTEST_S <= found.step_s.value <= plan_draw.LONGEST_S


def test_near_and_clear_cases_both_occur() -> None:
    margins = [draw(FROZEN, 1, number).margin for number in range(40)]
    assert any(margin > 0.86 for margin in margins) and sum(margin < 0.86 for margin in margins) > 20


def test_the_hosts_of_a_case_find_room_with_more_of_all_their_cpus() -> None:
    for number in range(12):
        case = draw(FROZEN, 2, number)
        assert case.dnn_cpus + case.data_hosts * case.data_cpus <= CPUS / MORE
    assert replace(CASE, dnn_cpus=0.5, data_cpus=0.3, data_hosts=2).busiest_cpus == pytest.approx(0.6)
    assert replace(CASE, dnn_cpus=0.4, data_hosts=0).busiest_cpus == 0.4
    assert fits(0.7, [0.3, 0.3]) and not fits(0.8, []) and not fits(0.5, [0.5, 0.5])


def test_a_model_for_which_nothing_can_bind_as_wished_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_draw, "TRIES", 20)
    monkeypatch.setattr(plan_draw, "LONGEST_S", 0.0)
    with pytest.raises(TfhetError, match="no case 1 of the seed 0"):
        draw(FROZEN, 0, 1)


# The run


def test_a_run_goes_through_the_case_with_more_of_each_resource() -> None:
    ceilings_s = {Resource.DATA_CPUS: 0.1, Resource.ACCELERATOR: 0.05, Resource.DNN_CPUS: 0.01}
    resources = [Resource.ACCELERATOR, Resource.DNN_CPUS, Resource.DATA_CPUS]
    phases = phases_of(CASE, resources, ceilings_s, 3.0)
    relaxed = [(resource.value, CASE.relaxed(resource)) for resource in resources]
    assert [(phase.name, phase.case) for phase in phases] == [(DRAWN, CASE), *relaxed, (AGAIN, CASE)]
    assert phases[1].steps == 30
    assert phases[0].waits_ms == pytest.approx(40.0)


def test_the_buffers_are_emptied_before_a_phase_and_only_then_its_steps_count() -> None:
    changes: list[tuple[PlanCase | None, float]] = []
    more = CASE.relaxed(Resource.DATA_CPUS)
    course = Course(
        [Phase(DRAWN, CASE, 10, 40.0), Phase("more", more, 5, 40.0)], lambda *change: changes.append(change)
    )
    waits = [0.0] * 100
    waits[8], waits[40] = 50.0, 50.0  # what was ready is gone with steps 8 and 40
    for step in range(1, 60):
        course.heard(step, waits[step])
    assert course.spans == {DRAWN: (8 + SKIPPED, 8 + SKIPPED + 10), "more": (38 + SKIPPED, 38 + SKIPPED + 5)}
    assert changes == [(CASE, 0.0), (CASE, 50.0), (more, 0.0), (more, 50.0), (None, 0.0)]
    assert course.is_over
    course.heard(60, 50.0)
    assert len(changes) == 5


def test_the_pace_of_steps_that_come_in_bursts_is_that_of_the_bursts() -> None:
    assert pace([100.0] * 20) == pytest.approx(100.0)
    assert pace([0.0, 0.0, 0.0, 400.0] * 8 + [0.0]) == pytest.approx(100.0, rel=0.03)


class Played(plan_run.PlanJob):
    """A job that ends in some way."""

    ends: RunSummary

    def __init__(self, *what: Any):
        self._course, self._looks, self._lines = Course([], lambda *change: None), [], ["its last words"]

    def run(self) -> RunSummary:
        return self.ends


def test_a_run_that_is_told_to_stop_ends_the_suite_and_one_that_dies_only_its_case(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plan_run, "PlanJob", Played)
    Played.ends = RunSummary(exit_code=1, cause="algo-1: killed")
    with pytest.raises(JobFailed, match="algo-1: killed"):
        plan_run.run(CASE, [], tmp_path, tmp_path)
    Played.ends = RunSummary(exit_code=1, cause=STOPPED_ON_REQUEST)
    with pytest.raises(Stopped, match="stopped on request"):
        plan_run.run(CASE, [], tmp_path, tmp_path)


# The truth


def test_the_resource_of_which_more_shortens_the_step_most_is_the_one_that_bound() -> None:
    assert outcome(ran(100, 80, 99, 99)).bound is THREE[0]
    assert outcome(ran(100, 98, 90, 99)).bound is THREE[1]
    assert outcome(ran(100, 99, 98, 85)).bound is THREE[2]  # the third, too, can be it


def test_a_step_is_held_against_that_as_drawn_at_the_time() -> None:
    """Without that the first phase would win on a machine that becomes slower."""
    slower = outcome(ran(100, 99, 101, 100.5, again=108))
    assert slower.drift_pct == pytest.approx(8.0)
    assert figures_of([slower], FROZEN)["plan.cpu_bound.drift_median_pct"].value == pytest.approx(8.0)
    assert slower.bound is THREE[2] and slower.is_clear
    assert outcome(ran(100, 100, 98, 90, again=100)).bound is THREE[2]


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (ran(100, 80, 80.5, 99), "two did the same"),
        (ran(100, 99, 99.5, 100), "none shortened the step"),
        (ran(100, 80, 99, 99, again=120), "the step as drawn changed"),
    ],
)
def test_a_run_that_cannot_tell_is_unclear(measured: Ran, why: str) -> None:
    assert outcome(ran(100, 80, 99, 99)).is_clear
    assert not outcome(measured).is_clear, why


def test_more_cpus_of_all_hosts_that_do_no_more_than_those_of_one_are_unclear() -> None:
    everywhere = (Resource.ALL_CPUS, Resource.DNN_CPUS, Resource.ACCELERATOR)
    case = replace(CASE, place=Place.EVERYWHERE)
    one = outcome(ran(100, 80.0, 80.5, 99, of=everywhere), case, everywhere)
    both = outcome(ran(100, 80.0, 90.0, 99, of=everywhere), case, everywhere)
    assert not one.is_clear and both.is_clear and both.bound is Resource.ALL_CPUS


def test_the_figures_are_the_errors_of_all_cases_and_how_often_the_right_resource_was_named() -> None:
    found = CASE.prediction(FROZEN).step_s.times(1e3)
    step_ms, held_out = found.value, replace(CASE, load=HELD_OUT[0])

    def measured(off: float, *relaxed: float) -> Ran:
        return ran(step_ms / off, *(each * step_ms / off for each in relaxed))

    cases = [outcome(measured(off, 0.8, 1.0, 1.0)) for off in (1.02, 0.96, 1.30)]
    cases.append(outcome(measured(1.1, 1.0, 0.8, 1.0), held_out))
    figures = {name: figure.value for name, figure in figures_of(cases, FROZEN).items()}
    assert figures["plan.cases"] == 4 and figures["plan.unclear_cases"] == 0
    assert found.low < step_ms / 1.1 < step_ms / 0.96 < found.high and step_ms / 1.3 < found.low
    assert figures["plan.interval_holds_pct"] == 75.0
    assert figures["plan.interval_width_pct"] == pytest.approx(100.0 * (found.high - found.low) / step_ms)
    assert figures["plan.error_median_pct"] == pytest.approx(7.0, abs=0.01)
    assert figures["plan.error_p95_pct"] == pytest.approx(27.0, abs=0.1)
    assert figures["plan.error_most_pct"] == pytest.approx(30.0)
    assert figures["plan.cpu_bound.held_out.error_median_pct"] == pytest.approx(10.0)
    assert figures["plan.cpu_bound.drift_p95_pct"] == 0.0
    assert not [name for name in figures if "other_chain" in name]
    assert figures["plan.binding_right_pct"] == 75.0


def test_cases_are_bound_by_cpus_if_the_model_says_so_or_the_run() -> None:
    fed = replace(CASE, accelerator_ms=5_000.0)
    by_accelerator = outcome(ran(5_000, 5_000, 4_000, 5_000), fed)
    figures = figures_of([by_accelerator], FROZEN)
    assert figures["plan.error_most_pct"].value < 0.1 and figures["plan.binding_right_pct"].value == 100.0
    assert not [name for name in figures if "cpu_bound" in name]
    missed = outcome(ran(10_000, 8_000, 10_000, 10_000), fed)  # the model believes it bound by the accelerator
    found = figures_of([by_accelerator, missed, outcome(ran(100, 100, 80, 100))], FROZEN)
    assert found["plan.cpu_bound.interval_holds_pct"].n == 2
    assert found["plan.cpu_bound.error_most_pct"].value == pytest.approx(50.0, abs=0.1)
    assert found["plan.binding_right_pct"].value == pytest.approx(100 / 3)


def test_a_case_that_is_unclear_says_nothing_of_the_resource_that_was_named() -> None:
    found = figures_of([outcome(ran(100, 80, 80.5, 99)), outcome(ran(100, 80, 99, 99))], FROZEN)
    assert found["plan.unclear_cases"].value == 1 and found["plan.binding_right_pct"].n == 1


def test_the_runs_that_others_published_are_figures_too() -> None:
    figures = figures_of([], FROZEN)
    assert figures["plan.published.aws_tf_pct"].value < 15.0
    assert {f"plan.published.{one.key}_pct" for one in predictions()} < set(figures)


def test_an_outcome_and_a_frozen_model_come_back_from_the_record_as_they_were() -> None:
    before = outcome(ran(100, 80, 99, 98))
    assert PlanOutcome.from_json(before.to_json(FROZEN)) == before
    frozen = Frozen.from_json(FROZEN.to_json())
    assert frozen.to_json() == FROZEN.to_json()
    assert before.prediction(frozen) == before.prediction(FROZEN)


# The suite


@dataclass
class Alone:
    """A machine on which everything costs more each time that it is asked."""

    times: float = 1.0
    overhead: Interval = Interval.exact(1.05)
    extra_ms: Interval = Interval.exact(3.0)
    broken: bool = False
    cpus: list[float] = field(default_factory=list)

    def costs(
        self, load: PlanLoad, channel: Path, positions: Sequence[int] | None = None, cpus: float = COSTS_CPUS
    ) -> dict[str, Any]:
        self.cpus.append(cpus)
        if self.broken:
            raise TfhetError("the gauge took too long")
        self.times *= 1.02
        said = said_of(load, self.times)
        cuts = [cut for cut in said["cuts"] if positions is None or cut["position"] in positions]
        return {"cuts": cuts, "whole_s": [] if positions else said["whole_s"]}

    @property
    def now(self) -> Frozen:
        """Its costs as they are now."""
        loads = {load: Measured.of(load, said_of(load, self.times)) for load in LOADS}
        return Frozen(loads, self.overhead, extra_ms=self.extra_ms)


@pytest.fixture
def machine() -> Alone:
    return Alone()


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, machine: Alone) -> list[PlanCase]:
    """Runs that take what is true of the machine at that time; case 1 fails."""
    cases: list[PlanCase] = []

    def run(case: PlanCase, phases: Sequence[Phase], channel: Path, folder: Path) -> Ran:
        cases.append(case)
        if folder.name == "case-1":
            raise JobFailed("a host died")
        steps = {phase.name: 1e3 * phase.case.prediction(machine.now).step_s.value for phase in phases}
        return Ran(steps, dict.fromkeys(steps, 20), 0.0, 0.0, 0.0, 0.0, {"algo-1": 1.0}, 1.0)

    monkeypatch.setattr(plan, "ChildGauge", lambda: machine)
    monkeypatch.setattr(plan, "Calm", lambda: Calm(0.0))
    monkeypatch.setattr(plan, "idle_loops", nullcontext)
    monkeypatch.setattr(plan_run, "run", run)
    monkeypatch.setattr(plan.kernel, "require", lambda what: None)
    monkeypatch.setattr(plan.job_data, "write_apart", lambda *words: None)
    return cases


def options(path: Path | None, cases: int, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    plan.SUITE.options(parser)
    return parser.parse_args([*([] if path is None else ["--json", str(path)]), "--cases", str(cases), *words])


def test_the_suite_measures_what_a_job_takes_over_its_parts_before_it_draws(
    simulated: list[PlanCase], machine: Alone, tmp_path: Path
) -> None:
    told: list[Any] = []
    given = options(tmp_path / "plan.json", 3)
    record = plan.SUITE.run(given, told.append, ["tfhet", "bench", "plan"])
    tried = (plan_freeze.TIMES * len(plan_freeze.LAYOUTS) + 1) * len(TRIED)
    assert len(simulated) == tried + 3
    frozen = Frozen.from_json(record.details["frozen"])
    assert {case.load for case in simulated[:tried]} == set(TRIED)
    assert machine.cpus == [*[COSTS_CPUS] * len(LOADS), *(case.busiest_cpus for case in simulated)]
    overhead = frozen.overhead
    assert (overhead.low, overhead.high) == pytest.approx((1.05, 1.05))
    assert frozen.extra_ms.value == pytest.approx(3.0)
    assert simulated[tried:] == [draw(frozen, given.seed, number) for number in range(3)]
    for one in (*frozen.runs, *record.details["cases"]):
        costs, case = one["costs"], PlanCase.from_json(one["case"])
        assert [cut["position"] for cut in costs["cuts"]] == list(case.positions)
        assert bool(costs["whole_s"]) is case.is_alone
    assert record.figures["plan.cases"].value == 2
    assert record.figures["plan.error_most_pct"].value < 0.01  # by costs of before its run no case is that near
    assert [words.split(":")[0] for words in record.details["failed"]] == ["case 1"]
    assert not plan.SUITE.is_kept(record)
    assert any("case 1: a host died" in line for line in plan.SUITE.notes(record))
    drawn = plan._draw(record, tmp_path / "plan.svg")
    assert drawn.stat().st_size > 0


def test_finished_cases_and_the_model_are_kept_when_a_suite_goes_on(simulated: list[PlanCase], tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    first = plan.SUITE.run(options(path, 3), lambda event: None, [])
    assert Record.read(path).details["cases"] == first.details["cases"]
    simulated.clear()
    again = plan.SUITE.run(options(path, 5, "--resume"), lambda event: None, [])
    assert [case.number for case in simulated] == [1, 3, 4]
    assert again.details["frozen"] == first.details["frozen"]
    assert again.details["cases"][:2] == first.details["cases"]
    with pytest.raises(UsageError, match="not of this seed"):
        plan.SUITE.run(options(path, 5, "--resume", "--seed", "1"), lambda event: None, [])
    assert again.details["failed"] == ["case 1: a host died"] * 2
    older = json.loads(path.read_text())
    del older["details"]["frozen"]["runs"][0]["costs"]
    older["details"]["cases"] = []
    (tmp_path / "older.json").write_text(json.dumps(older))
    with pytest.raises(UsageError, match="another form"):
        plan.SUITE.run(options(tmp_path / "older.json", 5, "--resume"), lambda event: None, [])
    with pytest.raises(UsageError, match="name it"):
        plan.SUITE.run(options(None, 5, "--resume"), lambda event: None, [])


def test_a_gauge_that_fails_ends_the_suite_which_can_go_on(
    simulated: list[PlanCase], machine: Alone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    plan.SUITE.run(options(path, 1), lambda event: None, [])
    machine.broken = True
    with pytest.raises(TfhetError, match=r"took too long; with --resume and the same --json FILE the suite goes on"):
        plan.SUITE.run(options(path, 3, "--resume"), lambda event: None, [])
    machine.broken = False
    assert len(plan.SUITE.run(options(path, 3, "--resume"), lambda event: None, []).details["cases"]) == 2


GOOD = dict.fromkeys(plan.MOST, 1.0) | dict.fromkeys(plan.LEAST, 95.0)


@pytest.mark.parametrize(
    ("name", "value"), [*((name, 16.0) for name in plan.MOST), *((one, 80.0) for one in plan.LEAST)]
)
def test_each_promise_fails_the_suite_by_itself(name: str, value: float) -> None:
    def record(values: dict[str, float], failed: list[str]) -> Record:
        figures = {one: Figure.single(each, unit="%") for one, each in values.items()}
        return Record("plan", figures, details={"failed": failed})

    assert plan.SUITE.is_kept(record(GOOD, []))
    assert not plan.SUITE.is_kept(record(GOOD, ["case 1: a host died"]))
    assert not plan.SUITE.is_kept(record({**GOOD, name: value}, []))
    assert not plan.SUITE.is_kept(record({one: each for one, each in GOOD.items() if one != name}, []))
