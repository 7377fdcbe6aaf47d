"""The questions that are put to the plan, the commands that are typed, and what follows from their answers."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import ENDS_WITH_PARENT
from benchmarks.cluster_runs.cold_loads import Calm
from benchmarks.plan_runs import commands as plan_commands
from benchmarks.plan_runs import suite as plan_runs
from benchmarks.plan_runs.case import CASES, DATA, DNN, LOOP, Hosts, PlanRunCase
from benchmarks.plan_runs.commands import Commands, arguments_of
from benchmarks.plan_runs.outcome import PlanRunOutcome, Run, figures_of
from benchmarks.plan_runs.speed import pass_ms
from tfhet.__main__ import main
from tfhet.errors import JobFailed
from tfhet.launch.settings import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings
from tfhet.record import Record, RunFolder, RunSummary, Spread
from tfhet.simulate import ClusterFile

RESULTS = Path(__file__).resolve().parents[2] / "results"
CPUS = 2
"""CPUs of the machine that the cases are made for."""
CANDIDATE: Mapping[str, Any] = {
    "step_ms": {"value": 104.0, "low": 95.0, "high": 110.0},
    "binding": "the accelerator",
    "layout": {"data_host_workers": 2, "dnn_host_workers": 1},
}


def run(step_ms: float, cluster: str = "1*ml.g5.xlarge") -> Run:
    """Its first steps are longer: buffers fill."""
    return Run(cluster, (900.0,) * 5 + (step_ms,) * 35, (0.0,) * 40, {})


def outcome(step_ms: float = 100.0, case: PlanRunCase = CASES[0]) -> PlanRunOutcome:
    return PlanRunOutcome(case, run(80.0), CANDIDATE, run(step_ms))


# The cases


def test_there_are_ten_cases_and_each_asks_about_another_cluster() -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 10
    for case in CASES:
        assert case.before != case.after
        assert case.script.path.is_file()
        assert case.before.cpus <= CPUS * 0.9 and case.after.cpus <= CPUS * 0.9


def test_the_cases_go_every_way() -> None:
    served = {(bool(case.before.data_hosts), bool(case.after.data_hosts)) for case in CASES}
    assert served == {(False, False), (False, True), (True, False), (True, True)}
    assert any(case.before.dnn_hosts < case.after.dnn_hosts for case in CASES)
    both = [case for case in CASES if case.before.data_hosts and case.after.data_hosts]
    assert {case.before.data_hosts < case.after.data_hosts for case in both} == {True, False}
    assert len({case.script.name for case in CASES}) == 3


def test_a_host_has_a_tenth_of_its_types_cpus_and_all_of_its_network() -> None:
    hosts = Hosts("2xlarge", 1, "large", 3)
    groups = ClusterFile.parse(hosts.file({"training": "/data"}), "cluster.yaml").groups
    assert (groups[DATA].hosts, groups[DATA].cpus, groups[DATA].mbit_per_s) == (3, 0.2, 781.0)
    assert (groups[DNN].hosts, groups[DNN].ranks, groups[DNN].cpus) == (1, 1, 0.8)
    assert hosts.cpus == pytest.approx(0.8 + 3 * 0.2)
    assert str(hosts) == "1*ml.g5.2xlarge+3*ml.c7i.large"
    assert DATA not in ClusterFile.parse(Hosts("xlarge").file({}), "cluster.yaml").groups


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_plan_answers_the_question_of_a_case(
    case: PlanRunCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = RunSummary.from_json(json.loads((RESULTS / "ten-minutes.json").read_text()))
    groups = {
        DNN: {"hosts": ["a"] * case.before.dnn_hosts, "instance_type": case.before.dnn_type, "ranks_per_host": 1},
        DATA: {"hosts": ["b"] * case.before.data_hosts, "instance_type": case.before.data_type, "role": "data"},
    }
    cluster = groups if case.before.data_hosts else {DNN: groups[DNN]}
    before = RunFolder(tmp_path / "before").create()
    before.write_summary(replace(summary, cluster=cluster, ranks=case.before.dnn_hosts))
    file = tmp_path / "plan.json"
    profile = str(RESULTS / "ten-minutes-profile.json")
    words = ["plan", "--run", str(before.path), "--profile", profile, *case.plan_words, "--json", str(file)]
    assert main(words) == 0, capsys.readouterr()
    found = {one["cluster"]["text"]: one for one in json.loads(file.read_text())["candidates"]}
    assert {str(case.before), str(case.after)} <= set(found)
    assert found[str(case.after)]["step_ms"]["value"] > 0


# The commands


def test_the_layout_of_the_plan_is_what_the_launcher_is_told() -> None:
    settings, left = LaunchSettings.parse(arguments_of(CANDIDATE))
    service = ServiceSettings.of(settings.planes)
    assert (service.data_host_workers, service.dnn_host_workers, left) == (2, 1, [])


class Typed:
    """Stands for `subprocess.run`: keeps the command lines, and answers each with an exit code."""

    def __init__(self, code: int = 0, late: bool = False):
        self.lines: list[list[str]] = []
        self._code, self._late = code, late

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.lines.append(command)
        if self._late:
            raise subprocess.TimeoutExpired(command, options["timeout"])
        return subprocess.CompletedProcess(command, self._code, "said\n", "why\n")


def test_commands_are_typed_as_a_user_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = Typed()
    monkeypatch.setattr(plan_commands.subprocess, "run", typed)
    commands, case = Commands(tmp_path), CASES[0]
    folder = commands.simulate("first", case.script, case.step_ms, case.before, {"training": "/data"})
    commands.profile(case.script, {"training": "/data"})
    commands.profile(LOOP, {"training": "/data"})
    assert folder.path == tmp_path / "first" and (tmp_path / "first.yaml").is_file()
    simulate, profile, loop = commands.typed
    assert simulate.startswith("tfhet simulate first.yaml --hosts namespace")
    assert f"-- tfhet_launcher.py --train_script {case.script.path.name}" in simulate
    assert simulate.endswith(f"--accelerator_step_ms {case.step_ms:g}")
    assert profile.startswith(f"tfhet profile --script {case.script.path.name} ") and "-- --batch 32" in profile
    assert "--accelerator_step_ms" not in loop
    assert all(line[:3] == list(ENDS_WITH_PARENT) and line[4:6] == ["-m", "tfhet"] for line in typed.lines)


@pytest.mark.parametrize(("typed", "words"), [(Typed(code=2), "exit code 2"), (Typed(late=True), "not done within")])
def test_a_command_that_fails_fails_the_case(
    typed: Typed, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_commands.subprocess, "run", typed)
    with pytest.raises(JobFailed, match=f"{words}.*tfhet profile"):
        Commands(tmp_path).profile(LOOP, {})


def test_a_plan_that_leaves_out_the_cluster_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_commands.subprocess, "run", Typed())
    case = CASES[0]
    file = tmp_path / f"plan-{case.name}.json"
    other, asked = ({**CANDIDATE, "cluster": {"text": str(hosts)}} for hosts in (case.before, case.after))
    file.write_text(json.dumps({"candidates": [other, asked], "notes": ["assumed"]}))
    found = Commands(tmp_path).plan(case, RunFolder(tmp_path), tmp_path / "profile.json")
    assert found == {**asked, "notes": ["assumed"]}
    file.write_text(json.dumps({"candidates": [other], "notes": []}))
    with pytest.raises(JobFailed, match="does not show"):
        Commands(tmp_path).plan(case, RunFolder(tmp_path), tmp_path / "profile.json")


# What follows


def test_a_step_is_that_of_the_steady_state() -> None:
    assert run(100.0).step_ms == pytest.approx(100.0)
    bursts = Run("cluster", (0.0, 0.0, 0.0, 400.0) * 20, (0.0,) * 80, {})
    assert bursts.step_ms == pytest.approx(100.0, rel=0.03)
    assert bursts.to_json()["median_ms"] == 0.0


def test_a_run_is_read_from_its_record() -> None:
    steps = Spread.of([100.0 / 3] * 40)
    summary = RunSummary(step_ms=steps, wait_ms=Spread.of([1.0] * 40), batch_size=32, ranks=1)
    found = Run.of("cluster", summary)
    assert found.steps_ms[0] == 33.333 and found.told["batch_size"] == 32
    json.dumps(found.to_json())
    with pytest.raises(JobFailed, match="measured 0 steps"):
        Run.of("cluster", replace(summary, step_ms=None))


def test_the_error_is_that_of_the_measured_step() -> None:
    assert outcome(100.0).distance.error_pct == pytest.approx(4.0) and outcome(100.0).distance.holds
    assert outcome(130.0).distance.error_pct == pytest.approx(-20.0) and not outcome(130.0).distance.holds
    assert outcome(130.0).row()["holds"] == "NO"


def record(*outcomes: PlanRunOutcome, failed: tuple[str, ...] = ()) -> Record:
    return plan_runs._record(outcomes, failed, plan_runs.Bench(Commands(Path())), ["python"], None)


def test_the_promise_is_every_error_and_most_intervals() -> None:
    good = [outcome(100.0)] * 8
    assert plan_runs.SUITE.is_kept(record(*good, *[outcome(112.0)] * 2))
    assert not plan_runs.SUITE.is_kept(record(*good, *[outcome(112.0)] * 3))  # 112 is beyond the interval
    assert not plan_runs.SUITE.is_kept(record(*good, outcome(130.0)))
    assert not plan_runs.SUITE.is_kept(record(*good, failed=("photos: no step",)))
    assert not plan_runs.SUITE.is_kept(record())
    assert any("no step" in line for line in plan_runs.SUITE.notes(record(*good, failed=("photos: no step",))))


def test_a_record_has_the_figures_and_all_raw_steps(tmp_path: Path) -> None:
    written = record(outcome(100.0), outcome(112.0))
    written.write(tmp_path / "record.json")
    found = Record.read(tmp_path / "record.json")
    assert found.figures["plan_runs.interval_holds_pct"].value == 50.0
    assert found.figures["plan_runs.error_most_pct"].value == pytest.approx(100 * (1 - 104 / 112))
    assert len(found.details["cases"][0]["after"]["steps_ms"]) == 40
    assert set(figures_of([])) == {"plan_runs.cases"}


def test_cases_that_cpus_bind_have_figures_of_their_own() -> None:
    bound = outcome(130.0)
    bound = replace(bound, candidate={**bound.candidate, "binding": "CPUs of all hosts"})
    found = figures_of([outcome(104.0), bound])
    assert found["plan_runs.error_median_pct"].value == pytest.approx(10.0)
    assert found["plan_runs.cpu_bound.error_median_pct"].value == pytest.approx(20.0)
    assert found["plan_runs.cpu_bound.interval_holds_pct"].value == 0.0
    assert not [name for name in figures_of([outcome(104.0)]) if "cpu_bound" in name]


class Shared(Commands):
    """Runs nothing."""

    def simulate(self, name: str, *others: Any) -> RunFolder:  # type: ignore[override]
        self.typed.append(name)
        folder = RunFolder(self.place / name).create()
        samples = Spread.of([100.0] * 40)
        folder.write_summary(RunSummary(step_ms=samples, wait_ms=samples))
        return folder

    def profile(self, script: Any, channels: Any) -> Path:
        self.typed.append(f"profile-{script.name}")
        return self.place

    def plan(self, case: PlanRunCase, before: RunFolder, profile: Path) -> Mapping[str, Any]:
        self.typed.append(f"plan of {before.path.name}")
        return CANDIDATE


def bench(place: Path, passes_ms: Iterable[float], loads_ns: Iterable[float] = ()) -> plan_runs.Bench:
    """Runs nothing, on a machine of these speeds: of its CPUs at both ends of a run, of its memory beside it."""
    beside = (
        contextlib.nullcontext(SimpleNamespace(ns=ns)) for ns in itertools.chain(loads_ns, itertools.repeat(80.0))
    )
    passes, calm = iter(passes_ms).__next__, Calm(0.0)
    return plan_runs.Bench(Shared(place), passes, lambda: next(beside), calm)  # type: ignore[arg-type]


def test_cases_share_their_first_run_and_their_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_runs.job_data, "write_apart", lambda *asked: None)
    same = bench(tmp_path, itertools.repeat(50.0))
    first = CASES[1]
    second = replace(CASES[2], before=first.before, step_ms=first.step_ms, script=first.script)
    for case in (first, second):
        assert same.outcome(case).distance.error_pct == pytest.approx(4.0)
    before, profile, plan, *_ = same.commands.typed
    assert (before, profile, plan) == (f"{first.name}-before", "profile-photos", f"plan of {first.name}-before")
    assert same.commands.typed[4:] == [plan, f"{second.name}-after"]


def test_a_case_is_run_again_where_the_machine_changed_its_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the ends of the first run, the profile and the second run of each try."""
    monkeypatch.setattr(plan_runs.job_data, "write_apart", lambda *asked: None)
    slower, steady = [50.0, 50.0, 50.0, 50.0, 58.0, 60.0], [60.0, 61.0, 61.0, 60.0, 60.0, 60.0]
    changing, case = bench(tmp_path, slower + steady), CASES[0]
    found = changing.outcome(case)
    assert [one.pass_ms for one in found.speeds] == [60.5, 60.5, 60.0] and found.row()["drift %"] == 0.8
    typed = changing.commands.typed
    assert typed.count(f"{case.name}-before-2") == typed.count("profile-photos") - 1 == 1
    assert [round(one.drift_pct, 1) for one in changing.tries] == [18.0, 0.8]
    never = [value for at in (1.4, 1.2, 1.3) for value in (50.0, 50.0, 50.0, 50.0, 50.0 * at, 50.0 * at)]
    assert bench(tmp_path / "never", never).outcome(case).drift_pct == pytest.approx(20.0)


def test_a_case_is_run_again_where_loads_from_memory_took_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_runs.job_data, "write_apart", lambda *asked: None)
    changing = bench(tmp_path, itertools.repeat(50.0), [200.0, 90.0, 100.0, 80.0, 90.0, 100.0])
    found = changing.outcome(CASES[0])
    assert found.load_drift_pct == pytest.approx(25.0) and found.drift_pct == 0.0
    assert [round(one.load_drift_pct) for one in changing.tries] == [122, 25]
    assert record(found).figures["plan_runs.load_drift_most_pct"].value == pytest.approx(25.0)


def test_the_speed_of_a_cpu_is_that_of_work_that_never_changes() -> None:
    assert 0.1 < pass_ms() < 10_000


def test_the_suite_knows_its_cases() -> None:
    parser = argparse.ArgumentParser()
    plan_runs.SUITE.options(parser)
    assert parser.parse_args([]).cases.split(",") == [case.name for case in CASES]
