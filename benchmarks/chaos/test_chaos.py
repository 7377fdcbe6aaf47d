from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.chaos import suite as chaos
from benchmarks.chaos.outcome import ChaosOutcome, Strike, strikes
from benchmarks.chaos.schedule import Aim
from benchmarks.chaos.suite import figures_of
from benchmarks.faults.case import LEASE_S, READY_S
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.launch.settings import LaunchSettings
from tfhet.record import RunSummary
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
    values = {"trained_s": None if code else 100.0, "gone_s": gone_s, "hosts": HOSTS, **given}
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
        outcome(("late-join:data-1:after=50", 0.0), code=1, gone_s=104.0, cause="algo-3 did not join"),
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
        (outcome(("late-join:data-1:after=50", 0.0), code=1, gone_s=106.0), "after 26.0 s, the limit is 25 s"),
        (outcome(("kill:rank=1", 92.0), code=137, gone_s=93.0, cause=""), "no cause is named"),
        (outcome(("kill:rank=1", 92.0), code=1, gone_s=93.0, cause="no launcher said why ()"), "no cause is named"),
        (outcome(cause="the job ran longer than 100 s", code=143), "did not end by itself"),
        (outcome(epochs=[WELL]), "100 examples uncounted"),
        (outcome(epochs=[WELL, {**WELL, "once": 77}]), "3 examples uncounted"),
        (outcome(epochs=[WELL, {**WELL, "once": 77, "missing": 3}]), "3 examples missing"),
        (outcome(epochs=[WELL, {**WELL, "once": 77, "repeated": 3}]), "3 examples repeated"),
    ],
)
def test_what_does_not_is_said(seen: ChaosOutcome, words: str):
    assert len(seen.breaches) >= 1
    with pytest.raises(AssertionError, match=words):
        raise AssertionError("\n".join(seen.breaches))


def resumed(*epochs: dict, code: int = 0) -> RunSummary:
    return RunSummary(exit_code=code, cause="it died" if code else None, epochs=epochs)


def test_a_job_that_was_stopped_is_accounted_for_by_the_one_that_takes_it_up():
    first, second = {**WELL, "epoch": 0}, {**WELL, "epoch": 1}

    def breaches(taken_up: RunSummary) -> str:
        stopped = outcome(("sigterm:host@data-1", 92.0), code=143, epochs=[first], resumed=taken_up)
        return "; ".join(stopped.breaches)

    assert breaches(resumed(first, second)) == ""
    assert breaches(resumed(second)) == ""  # the stop came in the last epoch
    assert breaches(resumed(first)) == "100 examples uncounted"
    assert breaches(resumed({**second, "before": 9})) == "1 examples uncounted"
    assert breaches(resumed({**second, "before": 9, "repeated": 1})) == "1 examples repeated"
    assert "the job that took it up failed: it died" in breaches(resumed(code=3))


def test_a_job_that_was_ended_by_the_simulator_hangs():
    assert outcome(cause="the job ran longer than 100 s", code=143).hangs


def test_the_figures_sum_up():
    seen = [
        outcome(),
        outcome(epochs=[WELL, {**WELL, "once": 77}], left=("a", "b")),
        outcome(epochs=[WELL, {**WELL, "once": 77, "missing": 3}]),
        outcome(("kill:rank=1", 92.0), code=137, gone_s=99.0),
        outcome(("kill:rank=1", 92.0), code=137, gone_s=105.0),
    ]
    values = {name: figure.value for name, figure in figures_of(seen).items()}
    assert values == {
        "chaos.schedules": 5,
        "chaos.hangs": 1,
        "chaos.leaks": 2,
        "chaos.uncounted_examples": 3,
        "chaos.missing_examples": 3,
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
    return argparse.Namespace(
        **{"seeds": 2, "first": 5, "launcher": launcher, "folder": None, "hosts": "process", **given}
    )


def test_seeds_are_run_in_order_and_the_runs_that_broke_a_promise_are_kept(tmp_path: Path, monkeypatch):
    def run(seed: int, launcher: Path, place: Path, hosts: str) -> ChaosOutcome:
        assert hosts == "process"
        place.mkdir(parents=True)
        (place / "log").write_text(str(seed))
        (place / "channel").symlink_to(tmp_path)
        return outcome(left=("process 7",) if seed == 6 else ())

    monkeypatch.setattr(chaos, "run_seed", run)
    told: list[Event] = []
    kept = tmp_path / "kept"
    (kept / "seed-6" / "old").mkdir(parents=True)
    record = chaos.SUITE.run(options(tmp_path, folder=kept), told.append, ("tfhet",))
    assert [path.name for path in kept.iterdir()] == ["seed-6"]
    assert sorted(path.name for path in (kept / "seed-6").iterdir()) == ["channel", "log"]
    assert (kept / "seed-6" / "channel").is_symlink()
    assert [event.fields["said"] for event in told] == [[], ["left behind: process 7"]]
    assert record.figures["chaos.broken"].value == 1
    assert list(chaos.SUITE.notes(record)) == ["goes on: 2", "not kept: seed 1: left behind: process 7"]


@pytest.mark.parametrize("given", [{"seeds": 0}, {"launcher": Path("none.py")}])
def test_wrong_use_is_refused(tmp_path: Path, given):
    with pytest.raises(UsageError):
        chaos.SUITE.run(options(tmp_path, **given), lambda event: None, ())
