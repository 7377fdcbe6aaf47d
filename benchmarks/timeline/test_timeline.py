"""what notes cost, from runs of which none is made here."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.timeline import suite as timeline
from benchmarks.timeline.suite import COST, COUNTED, STEP, NoteCost, NotedRun
from tfhet.errors import JobFailed, UsageError
from tfhet.events import ignore
from tfhet.record import Record, RunSummary, Spread

OFF = NotedRun("off", cpu_s=20.0, step_ms=20.0, steps=0, samples=0)
ON = NotedRun("steps", cpu_s=20.5, step_ms=20.0, steps=1000, samples=100)
COST_OF_ONE = NoteCost(sample_us=200.0, step_us=10.0)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    timeline.SUITE.options(parser)
    return parser.parse_args(words)


def record(on: NotedRun, cost: NoteCost = COST_OF_ONE) -> Record:
    return Record.of("timeline", timeline.figures_of([(OFF, on)] * 3, [cost] * 3), command=("tfhet",))


def test_the_cost_is_what_a_run_uses_more_and_what_its_notes_sum_to():
    figures = record(ON).figures
    assert figures[COST].value == pytest.approx(2.5) and figures[COST].n == 3 and figures[COST].unit == "%"
    assert figures[COST].samples == pytest.approx((2.5, 2.5, 2.5))
    assert figures[COUNTED].value == pytest.approx(100 * (100 * 200e-6 + 1000 * 10e-6) / 20.5)
    assert figures[STEP].value == pytest.approx(0.0)
    assert figures["timeline.sample_us"].value == 200.0 and figures["timeline.step_us"].value == 10.0


@pytest.mark.parametrize(
    ("on", "cost", "kept"),
    [
        (replace(ON, cpu_s=20.1), COST_OF_ONE, True),
        (replace(ON, cpu_s=19.0), COST_OF_ONE, True),
        (ON, COST_OF_ONE, False),
        (replace(ON, cpu_s=20.1), NoteCost(3000.0, 10.0), False),
    ],
)
def test_less_than_one_per_cent_is_kept_by_the_runs_and_by_the_count(on, cost, kept):
    made = record(on, cost)
    assert timeline.is_kept(made) is kept
    (note,) = timeline.SUITE.notes(made)
    assert ("so it is" in note) is kept


def test_both_modes_take_turns_and_a_warm_up_is_not_counted(monkeypatch, tmp_path):
    ran: list[str] = []

    def noted_run(mode: str, given: argparse.Namespace, folder: Path) -> NotedRun:
        ran.append(mode)
        return OFF if mode == "off" else ON

    monkeypatch.setattr(timeline, "_noted_run", noted_run)
    monkeypatch.setattr(timeline, "note_cost", lambda folder: COST_OF_ONE)
    (tmp_path / "launcher.py").touch()
    given = options("--launcher", str(tmp_path / "launcher.py"))
    given.repeats, given.warmup = 2, 1
    made = timeline.SUITE.run(given, ignore, ("tfhet",))
    assert ran == ["off", "steps", "steps", "off", "off", "steps"]
    assert made.figures[COST].n == 2 and len(made.details["runs_measured"]) == 2


def test_a_run_is_asked_for_its_notes_and_one_that_fails_is_told(monkeypatch, tmp_path):
    asked = []

    def simulate(cluster, command, folder, **how):
        asked.append(command)
        return summary

    monkeypatch.setattr(timeline, "simulate", simulate)
    summary = RunSummary(exit_code=0, step_ms=Spread.of([20.0, 22.0, 24.0]), host_cpu_s={"a": 1.5, "b": 2.0})
    (tmp_path / "run").mkdir()
    run = timeline._noted_run("steps", options("--step_ms", "5", "--examples", "640"), tmp_path / "run")
    assert run == NotedRun("steps", 3.5, 22.0, 0, 0) and not (tmp_path / "run").exists()
    assert asked[0][:5] == ["scripts/launcher.py", "--timeline", "steps", "--model", "emulated"]
    assert "synthetic:640:16" in asked[0]
    summary = RunSummary(exit_code=3, cause="it broke")
    with pytest.raises(JobFailed, match="--timeline off failed: it broke"):
        timeline._noted_run("off", options(), tmp_path)


def test_notes_are_made_to_see_what_one_costs(tmp_path):
    cost = timeline.note_cost(tmp_path, notes=50)
    assert cost.sample_us > 0 and cost.step_us > 0
    assert len((tmp_path / "use.jsonl").read_text().splitlines()) >= 45
    assert len((tmp_path / "steps-0.jsonl").read_text().splitlines()) >= 40


@pytest.mark.parametrize("words", [["--examples", "0"], ["--step_ms", "0"], ["--launcher", "gone.py"]])
def test_options_that_measure_nothing_are_refused(words):
    with pytest.raises(UsageError, match=words[0]):
        timeline.SUITE.run(options(*words), ignore, ())
