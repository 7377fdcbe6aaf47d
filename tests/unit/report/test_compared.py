"""report/changes.py and compared.py: what changed from one run to another, and what the steps do not tell."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.events import Event
from tfhet.record import RunFolder, RunSummary, Spread
from tfhet.report import Comparison, RunView, text
from tfhet.report.cost import prices_in


def run(
    name: str, step_ms: float, wait_ms: float, *, count: int = 60, noise: float = 0.02, **more: object
) -> RunSummary:
    """A run whose steps vary by `noise`."""
    chance = random.Random(name)
    steps = [step_ms * chance.uniform(1 - noise, 1 + noise) for _ in range(count)]
    values: dict[str, object] = {
        "name": name,
        "exit_code": 0,
        "ranks": 1,
        "batch_size": 32,
        "steps": count,
        "step_ms": Spread.of(steps),
        "wait_ms": Spread.of([wait_ms / step_ms * step for step in steps]),
        "wait_pct": 100 * wait_ms / step_ms,
        "cluster": {"dnn_group": {"hosts": ["algo-1"], "instance_type": "ml.c5.18xlarge"}},
    }
    return RunSummary(**{**values, **more})  # type: ignore[arg-type]


def compared(*runs: RunSummary) -> Comparison:
    return Comparison.of([RunView.of(each) for each in runs], prices_in("us-east-1", runs))


def test_speed_waiting_and_settings_are_named_first():
    slow = run("A", 36.0, 16.2, watched={"settings": {"num_workers": 0}})
    found = compared(slow, run("B", 20.0, 0.5, watched={"settings": {"num_workers": 4}}))
    first = found.words[0]
    assert first.startswith("B is 1.8") and "times faster per step than A" in first
    assert "waits 2.5 % of the step instead of 45.0 %" in first and "num_workers 0 -> 4" in first
    assert any("costs 4" in each and "less" in each for each in found.words)
    shown = text(found.table())
    assert "num_workers" in shown and "not input-bound" in shown and "batch size" not in shown


def test_nothing_is_claimed_beyond_the_spread():
    (change,) = compared(run("A", 20.0, 5.0, noise=0.9), run("B", 21.5, 5.5, noise=0.9)).changes
    assert "not told apart" in change.words[0] and "times" not in change.words[0]
    (change,) = compared(run("A", 20.0, 5.0, noise=0.001), run("B", 20.4, 5.1, noise=0.001)).changes
    assert "not told apart" in change.words[0], "one run of each: 2 % may be the machine"


def test_few_steps_have_percentiles_and_fewer_have_no_claim():
    few = [run(name, step_ms, 1.0, count=20) for name, step_ms in (("A", 40.0), ("B", 10.0))]
    (change,) = compared(*few).changes
    assert "p10" in change.basis and 3.8 < change.faster.value < 4.2
    (change,) = compared(few[0], run("B", 10.0, 1.0, count=5)).changes
    assert change.faster is None and "too few steps of B" in change.words[0]


def test_other_numbers_of_examples_are_compared_per_example():
    (change,) = compared(run("A", 20.0, 1.0), run("B", 30.0, 1.5, ranks=4)).changes
    assert change.per == "example" and 2.5 < change.faster.value < 2.8
    assert any("32 and 128 examples" in each for each in change.words)
    (change,) = compared(run("A", 20.0, 1.0, batch_size=None), run("B", 30.0, 1.5, ranks=4)).changes
    assert not change.per and "number of examples of a step is not known" in change.words[0]


def test_unknown_figures_are_never_zero():
    found = compared(run("A", 20.0, 1.0, first_batch_s=2.0), RunSummary(name="B"))
    rows = {line.split("  ")[0].strip(): line for line in text(found.table()).splitlines()}
    for name in ("first batch (s)", "examples/s", "waiting for data (%)", "epoch starts (% of the time)"):
        assert name not in rows or "not known" in rows[name]
    assert "not known" in rows["first batch (s)"] and "whether B is input-bound is not known" in " ".join(found.words)
    content = json.dumps(found.changes[0].to_json()["faster"])
    assert content == "null"


def test_places_without_a_stage_are_known():
    first = run("A", 20.0, 1.0, stages_where={"rescale()": "trainer"})
    found = compared(first, run("B", 20.0, 1.0, stages_where={"rescale()": "data_group"}), run("C", 20.0, 1.0))
    (line,) = [line for line in text(found.table()).splitlines() if "on data_group" in line]
    assert line.split()[2:] == ["none", "rescale()", "not", "known"]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    for name, step_ms in (("old", 40.0), ("new", 20.0)):
        folder = RunFolder(Path("runs") / name).create()
        folder.write_summary(run("train", step_ms, 1.0))
        folder.write_event(Event("watch.started", 1.0, {"command": ["python", "train.py", name]}))
    return ["runs/old", "runs/new"]


def test_command_compares_the_last_two_runs(folders, capsys):
    RunFolder(Path("runs/running")).create()
    assert main(["compare", "--json", "c.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("new is 2.0") and "python train.py old" in out
    found = json.loads(Path("c.json").read_text())
    assert [each["name"] for each in found["runs"]] == ["old", "new"]
    assert 1.8 < found["changes"][0]["faster"]["value"] < 2.2
    assert main(["compare", *folders, folders[0]]) == 0


@pytest.mark.parametrize("words", [["compare", "runs/old"], ["compare", "nowhere"], ["compare", "runs/old", "nowhere"]])
def test_missing_runs_are_an_error(folders, words, capsys):
    assert main(words) == 2
    assert words[-1] in capsys.readouterr().err
