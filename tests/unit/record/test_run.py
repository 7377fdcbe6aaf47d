"""record/run.py and record/folder.py: what a run leaves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tfhet.errors import DataError, UsageError
from tfhet.events import Event
from tfhet.record import RunFolder, RunSummary, Spread


def summary(**changes: object) -> RunSummary:
    values: dict[str, object] = {
        "name": "demo",
        "job_id": "job-1",
        "mode": "heterogeneous",
        "started": 1.5,
        "cluster": {"data_group": {"hosts": ["algo-1"], "role": "data", "servers_per_host": 2}},
        "exit_codes": {"algo-1": 0, "algo-2/0": -9, "algo-3": None},
        "exit_code": 0,
        "step_ms": Spread.of([10.0, 12.0, 11.0]),
        "epochs": [{"epoch": 0, "seen": 1437, "loss": math.inf}],
        "stages_where": {"dilate(size=3)": "data_group", "rescale()": "trainer"},
        "metrics": {"val_accuracy": 0.97},
    }
    return RunSummary(**{**values, **changes})  # type: ignore[arg-type]


def test_a_summary_survives_its_file(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.write_summary(summary())
    assert folder.read_summary() == summary()


def test_a_summary_of_nothing_is_readable_and_all_none(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_summary(RunSummary())
    assert folder.read_summary() == RunSummary()
    assert RunSummary.from_json({"schema": 1}) == RunSummary()
    assert RunSummary.from_json({"schema": 1}).to_json() == RunSummary().to_json()


def test_the_json_has_every_field_in_a_fixed_order_and_strict_syntax(tmp_path: Path) -> None:
    path = RunFolder(tmp_path).write_summary(summary(metrics={"loss": math.nan}))
    held = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert list(held)[:5] == ["schema", "name", "job_id", "mode", "started"]
    assert list(held) == list(RunSummary().to_json())
    back = RunFolder(tmp_path).read_summary()
    assert math.isnan(back.metrics["loss"]) and back.epochs[0]["loss"] == math.inf


def test_the_order_of_the_stages_is_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    stages = {"z()": "data_group", "a()": "data_group", "m()": "trainer"}
    folder.write_summary(summary(stages_where=stages))
    assert list(folder.read_summary().stages_where) == list(stages)


def test_fields_of_a_later_writer_are_left_alone() -> None:
    assert RunSummary.from_json({**summary().to_json(), "watts": 300}) == summary()


def test_another_schema_is_refused() -> None:
    with pytest.raises(UsageError, match=r"s\.json has schema 7"):
        RunSummary.from_json({**summary().to_json(), "schema": 7}, "s.json")


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        ({"steps": "many"}, "`steps` is 'many'"),
        ({"mode": "mixed"}, "'mixed'"),
        ({"wait_pct": True}, "`wait_pct` is True"),
        ({"cluster": []}, "`cluster`"),
        ({"cluster": {"dnn_group": 3}}, "`cluster"),
        ({"exit_codes": {"algo-1": "x"}}, "`exit_codes"),
        ({"duration_s": 10**400}, "`duration_s` is 1000"),
        ({"step_ms": {"median": 10**400, "p10": 1, "p90": 1}}, r"`step_ms\.median` is 1000"),
        ({"epochs": [3]}, "`epochs"),
        ({"step_ms": {"median": 1}}, "`step_ms`.*`p10`"),
    ],
)
def test_a_wrong_field_is_named(broken: dict[str, object], field: str) -> None:
    with pytest.raises(DataError, match=field):
        RunSummary.from_json({"schema": 1, **broken})


def test_an_unknown_mode_lists_the_known() -> None:
    with pytest.raises(UsageError, match="'mixed'; known: heterogeneous, homogeneous, local"):
        RunSummary(mode="mixed")


def test_the_measures_of_a_run_are_the_losses_and_shares_of_its_epochs() -> None:
    epochs = [
        {"epoch": 3, "loss": 2.0, "seen": 7, "val_accuracy": None},
        {"loss": 1.0, "val_accuracy": 0.5, "steps": 9},
    ]
    assert summary(epochs=epochs).measures == {"loss": [(3, 2.0), (1, 1.0)], "val_accuracy": [(1, 0.5)]}


def test_success_is_exit_code_zero_and_nothing_else() -> None:
    assert summary().succeeded
    assert not summary(exit_code=3).succeeded
    assert not summary(exit_code=None).succeeded


def test_logs_are_found_and_their_tails_read_from_the_end(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path).create()
    assert folder.log_tail("algo-1") == []
    folder.log_path("algo-2").write_text("".join(f"line {number}\n" for number in range(100)))
    folder.log_path("algo-1").write_text("")
    assert folder.hosts() == ["algo-1", "algo-2"]
    assert folder.log_tail("algo-2", lines=2) == ["line 98", "line 99"]
    assert folder.log_tail("algo-2", lines=50, limit_bytes=20) == ["line 98", "line 99"]


@pytest.mark.parametrize("host", ["", "..", "a/b"])
def test_a_host_name_cannot_leave_the_folder(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="cannot name a log file"):
        RunFolder(tmp_path).log_path(host)


def test_events_with_half_a_surrogate_pair_are_kept_and_lines_that_are_none_left_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.write_event(Event("host.joined", 1.0, {"host": "\ud800"}))
    with open(folder.events_path, "a") as file:
        file.write("[" * 100_000 + "\n" + "9" * 5000 + "\n")
    assert [event["host"] for event in folder.events()] == ["\ud800"]
