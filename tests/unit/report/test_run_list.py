"""record/runs.py and report/run_list.py: the runs in a folder, and the latest of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.record import RunFolder, RunSummary, Spread, latest_in, runs_in


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs, the latest called `b`, and a folder that is none."""
    monkeypatch.chdir(tmp_path)
    summaries = {
        "a": RunSummary(name="a", started=1_700_000_000.0, exit_code=3, cause="it broke"),
        "b": RunSummary(
            name="b", started=1_700_000_100.0, exit_code=0, step_ms=Spread.of([86.1, 86.1, 86.1]), wait_pct=3.14
        ),
        "c": None,
    }
    for at, (name, summary) in zip((10, 30, 20), summaries.items(), strict=True):
        folder = RunFolder(Path("runs") / name).create()
        if summary is not None:
            folder.write_summary(summary)
        os.utime(folder.logs_path, (at, at))
    Path("runs/notes").mkdir()
    return tmp_path / "runs"


def test_the_latest_run_comes_first_and_other_folders_are_left_out(runs):
    assert [run.path.name for run in runs_in(Path("runs"))] == ["b", "c", "a"]
    assert runs_in(Path("nowhere")) == []


def test_the_latest_is_that_of_a_folder_of_runs_and_any_other_path_is_itself(runs):
    assert latest_in(Path("runs")) == Path("runs/b")
    for path in ("runs/a", "runs/notes", "nowhere", "runs/b/summary.json"):
        assert latest_in(Path(path)) == Path(path)


def test_runs_are_listed_with_status_step_time_and_waiting(runs, capsys):
    assert main(["runs"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "runs/" in line]
    assert lines == [
        ["runs/b", "2023-11-14", "22:15:00", "succeeded", "86.1", "3.14"],
        ["runs/c", "–", "not", "ended", "–", "–"],
        ["runs/a", "2023-11-14", "22:13:20", "failed:", "3", "–", "–"],
    ]


def test_the_list_is_json_too(runs, capsys):
    assert main(["runs", str(runs), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(run["run"], run["exit_code"], run["step_ms"]) for run in found] == [
        (str(runs / "b"), 0, 86.1),
        (str(runs / "c"), None, None),
        (str(runs / "a"), 3, None),
    ]


def test_a_folder_without_runs_is_wrong_use(tmp_path, capsys):
    assert main(["runs", str(tmp_path)]) == 2
    assert f"no runs in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["top", "--once"], ["report"], ["top", "runs", "--once"]])
def test_a_command_without_a_run_takes_the_latest_and_says_which(runs, words, capsys):
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "the latest run in runs: runs/b\n" in err
    assert "runs/b" in out and "runs/a" not in out


def test_a_plan_takes_the_latest_run_too(runs, capsys):
    assert main(["plan", "--run"]) == 2
    assert "runs/b" in capsys.readouterr().err


def test_a_command_says_where_it_looked_where_no_run_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["top"]) == 2
    assert "no run at runs: name the folder of a run (`tfhet runs` lists them)" in capsys.readouterr().err
