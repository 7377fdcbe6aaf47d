"""A user's Keras script with one line of tfhet, in all three shapes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tfhet.advice import of_run
from tfhet.plan.measured_run import MeasuredRun
from tfhet.report import run_table, text
from tfhet.report.picture import Watcher

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(240)]


def fits(paths: list[Path], ranks: int) -> list[dict]:
    """The results that every rank wrote at the end of its training."""
    assert [path.name for path in sorted(paths, key=lambda p: p.name)] == [f"fit-{rank}.json" for rank in range(ranks)]
    found = [json.loads(path.read_text()) for path in paths]
    for fit in found:
        assert fit["size"] == ranks
        assert fit["loss"][-1] < fit["loss"][0]
    return found


@pytest.mark.parametrize(
    ("shape", "ranks", "mode"),
    [
        pytest.param({"data": 0}, 2, "homogeneous", id="homogeneous"),
        pytest.param(
            {"data": 1, "dnn": 2},
            4,
            "heterogeneous",
            id="heterogeneous, two dnn hosts with two ranks each",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_script_ends_with_equal_weights(simulated, script, shape, ranks, mode):
    run = simulated("--train_script", script("keras_fit"), **shape)
    assert run.summary.exit_code == 0, run.summary.cause
    assert run.summary.mode == mode
    found = fits(run.output("fit-*.json"), ranks)
    assert len({fit["digest"] for fit in found}) == 1
    assert {fit["steps"] for fit in found} == {2 * (1437 // 32 // ranks)}
    assert len({fit["validation_batches"] for fit in found}) == 1 and all(len(fit["loss"]) == 2 for fit in found)
    for fit in found:
        assert {name: values[-1] for name, values in fit["validated"].items()} == pytest.approx(fit["whole"], rel=1e-5)
    steps = 1437 // 32 // ranks
    assert (run.summary.steps, run.summary.batch_size, run.summary.ranks) == (2 * steps, 32, ranks)
    assert [(each["epoch"], each["steps"]) for each in run.summary.epochs] == [(0, steps), (1, steps)]
    assert None not in (run.summary.step_ms, run.summary.wait_ms, run.summary.examples_per_s, run.summary.first_batch_s)
    assert 0.0 <= run.summary.wait_pct <= 100.0
    assert any(f"step={2 * steps} " in line and "wait_pct=" in line for line in run.lines)
    assert_the_record_is_enough_for_a_plan(run, ranks)


def assert_the_record_is_enough_for_a_plan(run, ranks: int) -> None:
    assert [each["rank"] for each in run.summary.by_rank] == list(range(ranks))
    assert run.summary.wait_pct == pytest.approx(sum(each["wait_pct"] for each in run.summary.by_rank) / ranks)
    found = MeasuredRun.read(run.folder.path)
    assert 0 < found.accelerator_ms.value <= found.accelerator_ms.high <= run.summary.step_ms.p90
    assert found.dnn_ranks == ranks // len(run.summary.cluster[max(run.summary.cluster)]["hosts"])
    assert run.summary.cpu_ms is None or run.summary.cpu_ms.median > 0  # a short run may have no five steps to count


@pytest.mark.slow
def test_hanging_rank_is_named(simulated, script):
    run = simulated("--train_script", script("hangs"), "--stall_timeout_s", 6, data=0)
    assert run.summary.exit_code == 1
    assert re.search(r"^rank 1 on .*6 s; .*hangs.py:15 in stuck \(--stall_timeout_s\)$", run.summary.cause)


@pytest.mark.slow
def test_thread_that_prevents_the_end_is_named(simulated, script):
    run = simulated("--train_script", script("leaves"), "--thread", "--stall_timeout_s", 10, data=0, ranks=1)
    assert run.summary.exit_code == 1
    assert re.search(r"^rank 0 on .*10 s; .*leaves.py:\d+ in spin \(--stall_timeout_s\)$", run.summary.cause)
    assert run.found(r"\[tfhet\] .*(spinner) ")


def test_every_failed_rank_is_named(simulated, script):
    run = simulated("--train_script", script("hangs"), "--both_fail", data=0)
    assert run.summary.exit_code == 1
    named = [run.summary.cause, *run.summary.failures]
    assert sorted(re.findall(r"rank (\d) has had enough", " ".join(named))) == ["0", "1"]
    assert any(f"Error: {run.summary.failures[0]}" in line for line in run.lines)
    shown = text(run_table(run.summary, run.folder.path)).splitlines()
    assert [line.strip().split("  ")[0] for line in shown if line.strip()][1:3] == ["cause", "failed, too"]


def test_data_group_that_nobody_reads_is_named(simulated, script):
    run = simulated("--train_script", script("reads_nothing"), ranks=1)
    assert run.summary.exit_code == 0 and run.summary.has_read is False
    (data,) = [name for name, group in run.summary.cluster.items() if group["role"] == "data"]
    verdict = of_run(run.summary).verdict
    assert verdict.kind == "unread_data_group" and f"1 x {data}" in verdict.clause
    assert verdict.clause in Watcher(run.folder).look().state, "in tfhet top"
    (started,) = [event for event in run.folder.events() if event["event"] == "training.started"]
    assert started["sees_reads"] is True
