"""report/tables.py: the short table of a run, and runs side by side."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.record import Pause, RunFolder, RunSummary, Spread, StepTime, Timeline
from tfhet.report import compare, run_table, text
from tfhet.report.html import Given, page
from tfhet.report.run_view import RunView
from tfhet.report.tables import places


def summary(**changes: object) -> RunSummary:
    values: dict[str, object] = {
        "name": "demo",
        "mode": "heterogeneous",
        "cluster": {
            "data_group": {"hosts": ["algo-1"], "instance_type": "ml.c5.xlarge"},
            "dnn_group": {"hosts": ["algo-2"]},
        },
        "exit_codes": {"algo-1": 0, "algo-2/0": 0, "algo-2/1": -9},
        "exit_code": 0,
        "step_ms": Spread(86.1, 80.0, 95.0),
        "wait_pct": 3.1,
        "examples_per_s": 95143.0,
        "epochs": [{"epoch": 0, "seen": 1437, "expected": 1437, "missing": 0, "repeated": 0}],
        "stages_where": {"rescale()": "trainer", "dilate(size=3)": "data_group", "random_flip()": "data_group"},
    }
    return RunSummary(**{**values, **changes})  # type: ignore[arg-type]


def lines(run: RunSummary, folder: str | None = None) -> dict[str, str]:
    found = [line.strip().split("  ", 1) for line in text(run_table(run, folder)).splitlines() if "  " in line.strip()]
    return {name: value.strip() for name, value in found}


def test_the_demo_ends_with_what_was_promised() -> None:
    told = lines(summary(), "runs/demo")
    assert told["step time"] == "86.1 ms (p10 80.0, p90 95.0)"
    assert told["waiting for data"] == "3.1 % of the step"
    assert told["examples/s"] == "95,143"
    assert told["examples"] == "each of 1437 exactly once, 1 epoch"
    assert told["on data_group"] == "dilate(size=3); random_flip()"
    assert told["on trainer"] == "rescale()"
    assert told["exit code of algo-1 (data_group)"] == "0"
    assert told["exit code of algo-2/1 (dnn_group)"] == "signal 9"
    assert told["exit code of the job"] == "0"
    assert told["run record"] == "runs/demo"


def test_what_a_script_of_ones_own_leaves_says_what_is_not_known() -> None:
    plain = summary(epochs=[{"epoch": 0, "steps": 9, "examples": 288}], not_counted="a data set without ids")
    assert lines(plain)["examples"] == "not counted by id: a data set without ids"
    ranks = [{"rank": n, "steps": 9, "step_ms": 20.0 + n, "wait_pct": 3.0 * n, "unused": 8} for n in (0, 1)]
    epoch = {"epoch": 1, "seen": 40, "expected": 100, "once": 40, "missing": 0, "repeated": 0, "left": 60}
    counted = summary(epochs=[epoch], by_rank=ranks)
    told = lines(counted)
    left = "60 not delivered when the script ended, 16 held by the script's own prefetch"
    assert told["examples"] == f"40 seen, 0 missing, 0 repeated, {left}"
    assert told["of the ranks"] == "step 20.0 to 21.0 ms, waiting 0.0 % to 3.0 %"
    shown = html.unescape(page(Given([RunView.of(plain), RunView.of(counted)])))
    assert "not counted by id: a data set without ids" in shown and ">The ranks</h" in shown


def test_the_table_tells_epoch_starts_from_the_steady_state() -> None:
    """Two epochs of 20 steps, whose first 3 steps are the warm-up; the second epoch begins with a wait."""
    wait_ms = [2.0] * 17 + [3700.0] + [2.0] * 19
    run = summary(
        step_ms=Spread.of([98.0 + wait for wait in wait_ms]),
        wait_ms=Spread.of(wait_ms),
        wait_pct=None,
        epochs=[{"epoch": 0, "steps": 20}, {"epoch": 1, "steps": 20}],
    )
    told = lines(run)
    assert told["waiting for data"] == "51.0 % of the step, median 2.0 %"
    cost = "50.0 % of the time (3.70 s in 1; median 3.70 s, mean 3.70 s); without it 2.00 times faster"
    assert told["at epoch starts"] == cost
    assert told["in the steady state"].startswith("1.0 % of the time (74.0 ms in all steps; median 2.00 ms, mean")
    assert "in stalls" not in told
    view = RunView.of(run)
    shown = page(Given((view,)))
    assert cost in shown and "Not input-bound in the steady state: waiting for data is 2.0 %" in shown
    assert "epoch starts cost 50.0 % of the time (1 wait, 3.7 s)" in shown and 'class="mark"' in shown
    assert text(compare({"run": run})).count("2.00") == 2, "the median and the steady state"


def test_a_stall_is_named_with_the_event_beside_it(tmp_path: Path) -> None:
    waits_s = [2.0 if at == 23 else 0.001 for at in range(40)]
    steps = [StepTime(0.1 + wait_s, wait_s, at_s=1000.0 + at) for at, wait_s in enumerate(waits_s)]
    folder = RunFolder(tmp_path)
    Timeline.of([*steps, Pause("checkpoint", 1019.0, 3.5)]).write(folder.timeline_path)
    folder.write_event(Event("service.restarted", 1024.0, {"name": "worker-1"}))
    folder.write_event(Event("host.lost", 1030.0, {}))
    run = RunSummary()
    view = RunView.of(run, folder)
    shown = html.unescape(page(Given((view,))))
    named = 'the longest first: 2 s at measured step 21 beside a checkpoint, service.restarted name="worker-1". Where'
    assert named in shown
    assert lines(run, str(tmp_path))["in stalls"].startswith(f"{view.waits.stalls.share_pct:.1f} % of the time (2.00 s")


def test_a_failure_shows_its_cause() -> None:
    told = lines(summary(exit_code=3, cause="algo-2: train.py exited with 3"))
    assert told["exit code of the job"] == "3"
    assert told["cause"] == "algo-2: train.py exited with 3"


def test_missing_and_repeated_examples_are_counted() -> None:
    epochs = [{"seen": 10, "expected": 12, "missing": 2, "repeated": None}, {"loss": 1.0}]
    assert lines(summary(epochs=epochs))["examples"] == "10 seen, 2 missing, 0 repeated"


def test_a_run_of_which_nothing_is_known_is_all_dashes() -> None:
    told = lines(RunSummary())
    assert told["step time"] == told["waiting for data"] == told["examples/s"] == "–"


def test_the_places_come_in_the_order_of_the_cluster_and_foreign_ones_last() -> None:
    found = places(summary(stages_where={"a": "moon", "b": "trainer", "c": "data_group"}))
    assert list(found) == ["data_group", "trainer", "moon"]


def test_runs_are_compared_with_the_first_of_them() -> None:
    slow = summary(name="homogeneous", mode="homogeneous", step_ms=Spread(172.2, 160.0, 190.0))
    shown = text(compare({"homogeneous": slow, "demo": summary()}))
    assert "homogeneous" in shown and "demo" in shown
    assert "86.1 (0.500x)" in shown
    assert "USD" not in shown


def test_runs_may_be_named_by_the_caller_and_nothing_to_compare_is_wrong_use() -> None:
    assert "before" in text(compare({"before": summary(), "after": RunSummary()}))
    with pytest.raises(UsageError, match="at least one run"):
        compare({})
