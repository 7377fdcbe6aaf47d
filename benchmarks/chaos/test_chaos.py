from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import pytest

from benchmarks.chaos import suite as chaos
from benchmarks.chaos.outcome import ChaosOutcome, Strike, strikes
from benchmarks.chaos.regressions import REGRESSIONS, WITH_RAY
from benchmarks.chaos.schedule import Aim
from benchmarks.chaos.suite import figures_of
from benchmarks.faults.case import LEASE_S, READY_S
from benchmarks.judge.judge import Verdict
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.launch.settings import LaunchSettings
from tfhet.record import Record, RunSummary
from tfhet.simulate import Fault, load

AIM = Aim.of(load("two-data-two-dnn"), LaunchSettings(lease_s=LEASE_S, ready_timeout_s=READY_S))
HOSTS = {"data-1": "algo-3", "data-2": "algo-1", "dnn-1": "algo-2", "dnn-2": "algo-4"}
LAUNCHERS = ("algo-3", "algo-1", "algo-2/0", "algo-2/1", "algo-4/2", "algo-4/3")
WELL = {"expected": 100, "before": 10, "once": 80, "repeated": 0, "missing": 0, "bad": 10}


def outcome(*struck: tuple[str, float], code: int = 0, gone_s: float = 110.0, **given) -> ChaosOutcome:
    """A job that began at 90 s, trained until 100 s where it went on, and whose launchers ended with `code`."""
    faults = tuple(Fault.parse(text) for text, _ in struck)
    codes = {**dict.fromkeys(LAUNCHERS, code), **given.pop("codes", {})}
    cause = given.pop("cause", "rank 1 died" if code else None)
    summary = RunSummary(
        started=80.0, exit_codes=codes, exit_code=code, cause=cause, epochs=given.pop("epochs", [WELL, WELL])
    )
    at = tuple(Strike(fault, at_s) for fault, (_, at_s) in zip(faults, struck, strict=True) if at_s)
    values = {"trained_s": None if code else 100.0, "gone_s": gone_s, "hosts": HOSTS}
    values |= {"conditions": {"hosts": "process", "busy": False}, "verdict": None if code else Verdict(), **given}
    return ChaosOutcome(1, "two-data-two-dnn", faults, AIM, summary, at, **values)


def test_strikes_are_told_by_the_name_of_the_fault():
    faults = [Fault.parse(text) for text in ("kill:worker:after=1", "kill:worker:after=1.5", "oom:rank=1")]
    told = [
        ("fault.injected", "fault kill:worker:after=1.5: SIGKILL to process 7", 1.0),
        ("service.restarted", "fault oom:rank=1: no", 2.0),
        ("fault.injected", "fault kill:worker:after=1: SIGKILL to process 8", 3.0),
        ("fault.injected", "fault kill:worker:after=1.5: SIGKILL to process 9", 4.0),
    ]
    events = [{"event": event, "fault": fault, "time_s": at_s} for event, fault, at_s in told]
    found = strikes(faults, events)
    assert [(strike.fault, strike.at_s) for strike in found] == [(faults[1], 1.0), (faults[0], 3.0), (faults[1], 4.0)]


@pytest.mark.parametrize(
    "seen",
    [
        outcome(),
        outcome(("kill:worker", 92.0), ("kill:host@data-1", 93.0), codes={"algo-3": -9}),
        outcome(("partition:data-1", 92.0), codes={"algo-3": 1}),  # it cannot know how the job ended
        outcome(("kill:rank=1", 99.9)),  # too late to matter
        outcome(("kill:rank=1", 0.0)),  # never struck
        outcome(("kill:rank=1", 92.0), code=137, gone_s=100.0),
        outcome(("kill:host@dnn-1", 92.0), code=1, codes={"algo-2/0": -9, "algo-2/1": -9}, gone_s=100.0),
        outcome(("sigterm:host@data-1", 92.0), code=143, gone_s=121.0),
        outcome(("sigterm:host@data-1", 92.0), ("kill:rank=0", 92.0), code=137, gone_s=101.0),
        outcome(("late-join:data-1:after=50", 0.0), code=1, gone_s=104.0, cause="algo-3 did not join", has_begun=False),
        outcome(("kill:host@data-1:from=start", 82.0), code=1, gone_s=104.0, has_begun=False),
        outcome(
            ("hang:launcher@dnn-1:from=start", 81.0),
            ("late-join:data-1:after=50", 0.0),
            codes={"algo-3": 1},
            code=1,
            gone_s=152.0,
            cause="algo-3: no leader",
            has_begun=False,
        ),
        outcome(("hang:host@dnn-2:for=12", 92.0), code=1, gone_s=112.0),
        outcome(("partition-in:dnn-2:for=12", 92.0), code=1, gone_s=100.0),
        outcome(("hang:launcher@data-1:for=12", 92.0), codes={"algo-3": 1}),
        outcome(("hang:launcher@dnn-1:for=12", 95.0)),  # too late to be noticed
        outcome(*((f"partition:{host}:from=start:for=12", 82.0) for host in HOSTS)),  # over before they joined
        outcome(("clock=+600s:dnn-1", 92.0), ("second-job:data-1", 92.0), ("stall:dnn-2", 92.0)),
    ],
)
def test_what_keeps_the_promises_is_no_breach(seen: ChaosOutcome):
    assert seen.breaches == []
    assert not seen.hangs
    assert seen.uncounted == 0


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (outcome(left=("process 7",)), "left behind: process 7"),
        (outcome(code=1), r"the job's end: failure \(rank 1 died\); it might have been: goes on"),
        (outcome(code=143), "it might have been: goes on"),
        (outcome(("kill:rank=1", 92.0)), "goes on .None.; it might have been: failure"),
        (outcome(("sigterm:host@dnn-1", 92.0)), "it might have been: stop"),
        (outcome(codes={"algo-1": 1}), "the launchers do not agree"),
        (outcome(("kill:launcher@dnn-1", 92.0), code=1, codes={"algo-2/0": -9, "algo-2/1": 2}), "do not agree"),
        (outcome(("kill:rank=1", 92.0), code=137, gone_s=101.5), "after 9.5 s, the limit is 9 s"),
        (outcome(("sigterm:host@data-1", 92.0), code=143, gone_s=123.0), "after 31.0 s, the limit is 30 s"),
        (
            outcome(("late-join:data-1:after=50", 0.0), code=1, gone_s=106.0, has_begun=False),
            "after 26.0 s, the limit is 25 s",
        ),
        (outcome(("kill:rank=1", 92.0), code=137, gone_s=93.0, cause=""), "no cause is named"),
        (outcome(("kill:rank=1", 92.0), code=1, gone_s=93.0, cause="no launcher said why ()"), "no cause is named"),
        (outcome(cause="the job ran longer than 100 s", code=143), "did not end by itself"),
        (outcome(epochs=[WELL]), "100 examples uncounted"),
        (outcome(epochs=[WELL, {**WELL, "once": 77}]), "3 examples uncounted"),
        (outcome(epochs=[WELL, {**WELL, "once": 77, "missing": 3}]), "audit counts 3 examples missing, the judge 0"),
        (
            outcome(verdict=Verdict(("epoch 1: 3 examples repeated",), 0, 3)),
            "audit counts 0 examples repeated, the judge 3",
        ),
        (
            outcome(verdict=Verdict(("epoch 1: 3 examples repeated",), 0, 3)),
            "by the judge: epoch 1: 3 examples repeated",
        ),
        (outcome(("hang:host@dnn-2:for=12", 92.0), code=1, gone_s=114.0), "after 22.0 s, the limit is 21 s"),
        (outcome(("partition-in:dnn-2:for=12", 92.0), code=1, gone_s=102.0), "after 10.0 s, the limit is 9 s"),
        (outcome(("hang:launcher@data-1:for=12", 92.0), codes={"algo-3": 143}), "out of reach, ended with 143"),
        (outcome(("hang:launcher@dnn-1:for=12", 92.0), code=143), r"stop .rank 1 died.; it might have been: failure"),
    ],
)
def test_what_does_not_is_said(seen: ChaosOutcome, words: str):
    assert len(seen.breaches) >= 1
    with pytest.raises(AssertionError, match=words):
        raise AssertionError("\n".join(seen.breaches))


def test_a_script_of_its_own_may_lack_what_a_lost_server_held_if_the_account_says_so():
    def breaches(fault: str, told: int, found: Verdict) -> list[str]:
        epochs = [{**WELL, "once": 80 - told, "missing": told}, {**WELL, "once": 77, "left": 3}]
        own = dataclasses.replace(AIM, built_in=False)
        return dataclasses.replace(outcome((fault, 92.0), epochs=epochs, verdict=found), aim=own).breaches

    lacks = Verdict(("5 examples missing in 2 epochs",), missing=5)
    assert breaches("kill:worker@data-1", 5, lacks) == []
    assert breaches("kill:worker@data-1", 4, lacks) == ["the audit counts 4 examples missing, the judge 5"]
    assert breaches("stall:dnn-2", 5, lacks) == ["by the judge: 5 examples missing in 2 epochs"]
    twice = Verdict(("5 examples repeated in 2 epochs",), repeated=5)
    assert "by the judge: 5 examples repeated in 2 epochs" in breaches("kill:worker@data-1", 0, twice)


def resumed(*epochs: dict, code: int = 0) -> RunSummary:
    return RunSummary(exit_code=code, cause="it died" if code else None, epochs=epochs)


def test_a_job_that_was_stopped_is_accounted_for_by_the_one_that_takes_it_up():
    first, second = {**WELL, "epoch": 0}, {**WELL, "epoch": 1}

    def breaches(taken_up: RunSummary) -> str:
        more = {"epochs": [first], "resumed": taken_up, "verdict": Verdict()}
        stopped = outcome(("sigterm:host@data-1", 92.0), code=143, **more)
        return "; ".join(stopped.breaches)

    assert breaches(resumed(first, second)) == ""
    assert breaches(resumed(second)) == ""  # the stop came in the last epoch
    assert breaches(resumed(first)) == "100 examples uncounted"
    assert breaches(resumed({**second, "before": 9})) == "1 examples uncounted"
    repeated = breaches(resumed({**second, "before": 9, "repeated": 1}))
    assert repeated == "the audit counts 1 examples repeated, the judge 0"
    assert "the job that took it up failed: it died" in breaches(resumed(code=3))


def test_a_job_that_was_ended_by_the_simulator_hangs():
    assert outcome(cause="the job ran longer than 100 s", code=143).hangs


def test_the_figures_sum_up():
    seen = [
        outcome(),
        outcome(epochs=[WELL, {**WELL, "once": 77}], left=("a", "b")),
        outcome(verdict=Verdict(("epoch 0: 3 missing, 2 repeated",), 3, 2)),
        outcome(("kill:rank=1", 92.0), code=137, gone_s=99.0, conditions={"hosts": "namespace", "busy": False}),
        outcome(("kill:rank=1", 92.0), code=137, gone_s=105.0, conditions={"hosts": "process", "busy": True}),
    ]
    values = {name: figure.value for name, figure in figures_of([each.to_json() for each in seen]).items()}
    assert values == {
        "chaos.schedules": 5,
        "chaos.schedules_in_containers": 1,
        "chaos.schedules_on_busy_cpus": 1,
        "chaos.hangs": 1,
        "chaos.leaks": 2,
        "chaos.uncounted_examples": 3,
        "chaos.missing_examples": 3,
        "chaos.repeated_examples": 2,
        "chaos.broken": 3,
        "chaos.worst_exit_s": 13.0,
    }


def test_an_outcome_is_written_with_all_that_was_seen():
    seen = outcome(("kill:rank=1", 92.0), ("kill:worker", 0.0), code=137, gone_s=99.0)
    written = seen.to_json()
    assert (written["faults"], written["struck"]) == (["kill:rank=1", "kill:worker"], ["kill:rank=1"])
    assert (written["kind"], written["allowed"], written["exit_s"]) == ("failure", ["failure"], 7.0)
    assert written["exit_codes"] == dict.fromkeys(LAUNCHERS, 137)


def options(tmp_path: Path, **given) -> argparse.Namespace:
    launcher = tmp_path / "launcher.py"
    launcher.touch()
    usual = {"seeds": 2, "first": 5, "regressions": False, "hosts": "process", "busy": False, "more": False}
    usual |= {"plane": "tf_service", "reader": False, "strategy": ""}
    return argparse.Namespace(**{**usual, "launcher": launcher, "folder": None, "json": None, **given})


@pytest.fixture
def ran(tmp_path: Path, monkeypatch) -> list[chaos.Planned]:
    """The schedules that were run; the job of seed 6 leaves a process."""
    found: list[chaos.Planned] = []

    def run(self: chaos.Planned, launcher: Path, place: Path) -> ChaosOutcome:
        found.append(self)
        place.mkdir(parents=True)
        (place / "log").write_text(str(self.name))
        (place / "channel").symlink_to(tmp_path)
        conditions = {"hosts": self.hosts, "busy": self.busy, "plane": self.plane, "reader": self.reader}
        seen = outcome(left=("process 7",) if self.name == 6 else (), conditions=conditions)
        return dataclasses.replace(seen, seed=self.name)

    monkeypatch.setattr(chaos.Planned, "run", run)
    return found


def test_seeds_are_run_in_order_and_the_runs_that_broke_a_promise_are_kept(tmp_path: Path, ran):
    told: list[Event] = []
    kept = tmp_path / "kept"
    (kept / "seed-6" / "old").mkdir(parents=True)
    record = chaos.SUITE.run(options(tmp_path, folder=kept), told.append, ("tfhet",))
    assert [(each.name, each.hosts, each.busy) for each in ran] == [(5, "process", False), (6, "process", False)]
    assert [path.name for path in kept.iterdir()] == ["seed-6"]
    assert sorted(path.name for path in (kept / "seed-6").iterdir()) == ["channel", "log"]
    assert (kept / "seed-6" / "channel").is_symlink()
    assert [event.fields["said"] for event in told] == [[], ["left behind: process 7"]]
    assert record.figures["chaos.broken"].value == 1
    assert list(chaos.SUITE.notes(record)) == ["goes on: 2", "not kept: seed 6: left behind: process 7"]


def test_schedules_that_broke_once_are_run_by_name_before_the_seeds(tmp_path: Path, ran):
    chaos.SUITE.run(options(tmp_path, regressions=True, seeds=None), lambda event: None, ())
    assert [each.name for each in ran] == list(REGRESSIONS)
    chaos.SUITE.run(options(tmp_path, regressions=True, seeds=1), lambda event: None, ())
    assert [each.name for each in ran[len(REGRESSIONS) :]] == [*REGRESSIONS, 5]
    for name in REGRESSIONS:
        planned = chaos.Planned(name)
        assert [str(fault) for fault in planned.faults(AIM)] == list(REGRESSIONS[name][1])
        assert planned.cluster.name == REGRESSIONS[name][0]


def test_what_is_kept_of_jobs_with_ray_is_run_with_ray(tmp_path: Path, ran):
    chaos.SUITE.run(options(tmp_path, regressions=True, seeds=None, plane="ray"), lambda event: None, ())
    assert [(each.name, each.plane) for each in ran] == [(name, "ray") for name in WITH_RAY]
    for each in ran:
        assert [str(fault) for fault in each.faults(AIM)] == list(WITH_RAY[each.name][1])


def test_what_was_done_is_in_the_record_though_the_rest_is_broken_off_and_is_not_done_again(
    tmp_path: Path, ran, monkeypatch
):
    run, file = chaos.Planned.run, tmp_path / "chaos.json"

    def broken_off(self: chaos.Planned, *where: Path) -> ChaosOutcome:
        if self.name == 7 and len(ran) == 2:
            raise KeyboardInterrupt
        return run(self, *where)

    monkeypatch.setattr(chaos.Planned, "run", broken_off)
    with pytest.raises(KeyboardInterrupt):
        chaos.SUITE.run(options(tmp_path, seeds=4, json=file), lambda event: None, ("first",))
    assert Record.read(file).figures["chaos.schedules"].value == 2
    ran.append(chaos.Planned(0))
    chaos.SUITE.run(options(tmp_path, seeds=4, json=file, more=True), lambda event: None, ("second",))
    chaos.SUITE.run(options(tmp_path, seeds=1, json=file, more=True, hosts="namespace"), lambda event: None, ("third",))
    again = [(6, "process"), (7, "process"), (8, "process"), (5, "namespace")]  # 6 broke a promise
    assert [(each.name, each.hosts) for each in ran[3:]] == again
    record = Record.read(file)
    assert [job["seed"] for job in record.details["schedules"]] == [5, 6, 7, 8, 5]
    assert record.details["commands"] == [["first"], ["second"], ["third"]]
    assert (record.figures["chaos.schedules"].value, record.figures["chaos.broken"].value) == (5, 1)


def test_each_way_of_reading_has_a_record_of_its_own(tmp_path: Path, ran):
    file = tmp_path / "chaos.json"
    chaos.SUITE.run(options(tmp_path, seeds=1, json=file, reader=True), lambda event: None, ())
    for other in ({}, {"plane": "feed"}):
        with pytest.raises(UsageError, match="a record of their own"):
            chaos.SUITE.run(options(tmp_path, json=file, more=True, **other), lambda event: None, ())
    chaos.SUITE.run(options(tmp_path, json=file, more=True, reader=True), lambda event: None, ())
    assert [(each.name, each.reader) for each in ran] == [(5, True), (6, True)]


@pytest.mark.parametrize(
    "given",
    [
        {"seeds": 0},
        {"launcher": Path("none.py")},
        {"more": True},
        {"plane": "feed", "reader": True},
        {"strategy": "ray"},
        {"regressions": True, "plane": "feed"},
    ],
)
def test_wrong_use_is_refused(tmp_path: Path, given):
    with pytest.raises(UsageError):
        chaos.SUITE.run(options(tmp_path, **given), lambda event: None, ())


def test_a_node_of_ray_that_is_frozen_and_hosts_that_are_waited_for_longer_have_their_time():
    def breaches(fault: str, gone_s: float, **given) -> list[str]:
        aim = dataclasses.replace(AIM, plane="ray", ready_timeout_s=60.0)
        seen = outcome((fault, 0.0 if "late" in fault else 92.0), code=1, gone_s=gone_s, **given)
        return dataclasses.replace(seen, aim=aim).breaches

    assert breaches("hang:ray@dnn-1", 110.9) == []
    assert breaches("hang:ray@dnn-1", 111.1) == ["the last exit came after 19.1 s, the limit is 19 s"]
    assert breaches("late-join:data-1:after=90", 144.9, has_begun=False) == []
    late = breaches("late-join:data-1:after=90", 145.1, has_begun=False)
    assert late == ["the last exit came after 65.1 s, the limit is 65 s"]


def test_a_script_for_ray_has_no_account_but_is_judged():
    own = dataclasses.replace(AIM, plane="ray", strategy="ray", ranks=1)
    assert dataclasses.replace(outcome(epochs=[]), aim=own).breaches == []
    lacks = Verdict(("epoch 1: 5 examples missing",), missing=5)
    assert dataclasses.replace(outcome(epochs=[], verdict=lacks), aim=own).breaches == [
        "by the judge: " + lacks.words[0]
    ]


def test_the_arguments_of_jobs_with_ray():
    ranks, script = (chaos.arguments(2, "ray", strategy=strategy) for strategy in ("torch", "ray"))
    assert ranks[ranks.index("--strategy") + 1 :][:3] == ["torch", "--data_plane", "ray"]
    assert (ranks[-2:], script[-2:]) == (["--reads", "ray"], ["--reads", "cluster"])
    settings, _ = LaunchSettings.parse(script)
    assert (settings.strategy, settings.ready_timeout_s) == ("ray", chaos.RAY_READY_S)


@pytest.mark.parametrize(
    ("faults", "plane", "names"),
    [
        (["kill:worker@data-1:after=0.5", "second-job:dnn-1:from=scripts"], "tf_service", {"TFHET_LISTEN"}),
        (["second-job:data-1:after=0.5"], "feed", set()),
        (["same-base:dnn-1"], "ray", {"RAY_worker_niceness"}),
    ],
)
def test_a_job_listens_everywhere_where_a_second_one_comes_to_its_leader(
    faults: list[str], plane: str, names: set[str]
) -> None:
    assert set(chaos.variables([Fault.parse(text) for text in faults], plane)) == names


def test_a_record_names_no_folder_of_the_machine_that_made_it():
    assert chaos._anywhere(["chaos", "--folder", "/kept", "--more"]) == ["chaos", "--more"]
    assert chaos._anywhere(["chaos", "--more"]) == ["chaos", "--more"]
