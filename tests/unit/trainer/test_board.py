from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from fake_clock import FakeClock

from tfhet.messages import MetricLine
from tfhet.trainer.board import OFF, Board

LINE = MetricLine(10, 1, 86.125, 1280.0, 3.5, 2.25)


def read(folder: Path) -> dict[str, list[tuple[float, int, float]]]:
    """Wall time, step and value by tag, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {
        tag: [(each.wall_time, each.step, each.value) for each in found.Scalars(tag)] for tag in found.Tags()["scalars"]
    }


def test_tensorboard_reads_lines_and_epochs(tmp_path):
    clock = FakeClock(1000.0)
    board = Board("", tmp_path / "tensorboard", clock)
    board.line(LINE)
    clock.sleep(5.0)
    board.add(12, {"loss": 2.0, "val_loss": 1.5, "steps": 12})
    assert read(tmp_path / "tensorboard") == {
        "step/ms": [(1000.0, 10, 86.125)],
        "step/examples_per_s": [(1000.0, 10, 1280.0)],
        "step/wait_pct": [(1000.0, 10, 3.5)],
        "step/loss": [(1000.0, 10, 2.25)],
        "loss": [(1005.0, 12, 2.0)],
        "val_loss": [(1005.0, 12, 1.5)],
        "steps": [(1005.0, 12, 12.0)],
    }
    board.close()
    board.line(LINE)  # what comes later is left out


def test_nan_loss_is_shown(tmp_path):
    Board("", tmp_path).line(MetricLine(10, 1, 86.0, 1280.0, 3.5, math.nan))
    assert math.isnan(read(tmp_path)["step/loss"][0][2])


@pytest.mark.parametrize(("given", "where"), [("", "usual"), ("{}/own", "own"), (OFF, None)])
def test_argument_sets_the_folder(tmp_path, given, where):
    board = Board(given.format(tmp_path), tmp_path / "usual")
    board.line(LINE)
    board.close()
    assert [path.parent.name for path in tmp_path.rglob("*tfevents*")] == ([where] if where else [])


def test_full_disk_is_reported_once(tmp_path, monkeypatch, caplog):
    board = Board("", tmp_path)

    def refuse(*of: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("tfhet.telemetry.ScalarFile.add", refuse)
    for _ in range(3):
        board.line(LINE)
    board.close()
    (record,) = caplog.records
    assert "no space left on device" in record.getMessage()


def test_missing_folder_is_reported(tmp_path, caplog):
    (tmp_path / "full").write_text("no folder")
    board = Board("", tmp_path / "full" / "tensorboard")
    board.line(LINE)
    board.close()
    assert "TensorBoard" in caplog.text


def test_missing_tensorboard_is_reported(tmp_path, monkeypatch, caplog):
    for name in ("tensorboard", "tensorboard.compat.proto.event_pb2"):
        monkeypatch.setitem(sys.modules, name, None)
    board = Board("", tmp_path)
    board.line(LINE)
    board.add(1, {"loss": 1.0})
    assert "pip install 'tensorboard'" in caplog.text and not list(tmp_path.iterdir())
