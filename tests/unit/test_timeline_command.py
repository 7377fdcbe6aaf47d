"""`tfhet timeline`, of notes that were made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.events import Event
from tfhet.record import HostUsage, RunFolder, StepTime, TimelineFile, UsageSample
from tfhet.report.numbers import MISSING

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run of one rank and one data host."""
    folder = RunFolder(tmp_path / "run")
    for host, name, found in (
        (
            "algo-1",
            "steps-0",
            [
                StepTime(
                    host="algo-1",
                    rank=0,
                    step=n + 1,
                    epoch=0,
                    at_s=10.0 + n,
                    dur_s=0.5,
                    wait_s=0.125,
                    copy_s=0.0625,
                    allreduce_s=None,
                )
                for n in range(5)
            ],
        ),
        (
            "algo-2",
            "use-algo-2",
            [UsageSample("algo-2", 11.0, 1.0, "algo-2", {"worker-0": 0.75}, HostUsage(1, 2, "machine", 5, 0, 0))],
        ),
    ):
        TimelineFile(folder.path / "hosts" / host / "output" / "data" / "tfhet" / "timeline" / f"{name}.jsonl").append(
            found
        )
    folder.write_event(Event("host.lost", 12.0, {"host": "algo-2"}))
    return folder.path


def test_it_tells_where_the_time_went_and_a_dash_for_what_was_not_told_apart(run_dir, tmp_path, capsys):
    assert main(["timeline", str(run_dir), "--wide", "--json", str(tmp_path / "shares.json")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0", "algo-1", "2", "500", "25.0", "25.0", "12.5", "62.5", MISSING, "0"] in rows
    assert any(row[:3] == ["algo-2", "worker-0", "0.750"] for row in rows)
    content = json.loads((tmp_path / "shares.json").read_text())
    assert content["ranks"][0]["step_ms"] == 500.0
    assert content["hosts"][0]["of_cpus"] == 2


def test_it_writes_a_trace_with_the_marks_of_the_events(run_dir, tmp_path, capsys):
    path = tmp_path / "trace.json"
    assert main(["timeline", str(run_dir), "--chrome", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(path)
    found = json.loads(path.read_text())["traceEvents"]
    assert [event["name"] for event in found if event["ph"] == "i"] == ["host.lost"]
    assert sum(event["name"] == "step" for event in found) == 5


def test_it_writes_a_board_for_each_rank_and_host(run_dir, tmp_path, capsys):
    assert main(["timeline", str(run_dir), "--tensorboard", str(tmp_path / "boards")]) == 0
    written = capsys.readouterr().out.splitlines()[-2:]
    assert [Path(line).parent.name for line in written] == ["host-algo-2", "rank-0"]
    assert all(Path(line).is_file() for line in written)


def test_a_folder_without_notes_is_wrong_use_and_says_how_to_make_some(tmp_path, capsys):
    assert main(["timeline", str(tmp_path)]) == 2
    assert "run the job with --timeline hosts or steps" in capsys.readouterr().err
