"""bench/long_run.py, endurance.py and overhead.py: the accounts of the long runs."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.cluster_runs.observed_job import Moment
from benchmarks.faults import endurance, long_run, overhead
from benchmarks.faults.cpu_account import CpuAccount, CpuSeconds
from benchmarks.faults.long_run import BATCH, SPLITS, Load, LongRun
from tfhet.errors import JobFailed
from tfhet.events import Event
from tfhet.record import RunSummary, Spread
from tfhet.trainer.settings import Settings


def run_of(examples_per_s: float, kills: int = 0, **epoch: int) -> LongRun:
    """A run of 10 s at this rate, of one epoch."""
    load = Load(10.0, SPLITS * BATCH, 1)
    summary = RunSummary(exit_code=0, epochs=[{"epoch": 0, "examples": 1, **epoch}], wait_pct=90.0, restarts=kills)
    return LongRun(load, summary, 10.0, round(10 * examples_per_s), kills)


def test_a_load_takes_about_the_time_asked_for_in_whole_batches_of_every_split() -> None:
    load = Load.lasting(120.0, 2000.0, 12.5)
    assert load.epochs == 4
    assert load.examples % (SPLITS * BATCH) == 0
    assert load.examples * load.epochs / 2000.0 == pytest.approx(120.0, rel=0.1)
    assert Load.lasting(0.1, 1.0, 0.0) == Load(0.0, SPLITS * BATCH, 1)


def test_the_trainer_reads_a_loads_arguments_as_they_are_meant() -> None:
    settings = Settings.parse(Load(12.5, 4096, 3).arguments)
    assert (settings.model, settings.step_ms, settings.epochs, settings.batch_size) == ("emulated", 12.5, 3, BATCH)
    assert settings.data == f"synthetic:4096:{SPLITS}" and settings.chain == long_run.CHAIN


def test_what_a_step_takes_beside_the_emulated_time_is_part_of_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def slow(load: Load, *_: object) -> LongRun:
        spreads = {"step_ms": Spread.of([load.step_ms + 5.0]), "wait_ms": Spread.of([3.0])}
        return LongRun(load, RunSummary(exit_code=0, **spreads), 1.0, 1, 0)

    monkeypatch.setattr(endurance, "long_run", slow)
    load = endurance.asking(BATCH * 100.0, 60.0, tmp_path, tmp_path)
    assert load.step_ms == pytest.approx(10.0 - 2.0)
    assert load.examples * load.epochs == pytest.approx(BATCH * 6000, rel=0.1)


def job_of(steps: list[Moment], ends: list[Moment], kills: int) -> Any:
    events = [{"event": "fault.injected"}] * kills + [{"event": "launchers.gone"}]
    return SimpleNamespace(steps=steps, epoch_ends=ends, folder=SimpleNamespace(events=lambda: iter(events)))


def test_the_rate_counts_the_ends_of_epochs_and_leaves_out_what_came_before_the_first_line() -> None:
    job = job_of([Moment(100.0, 10, 0), Moment(101.0, 20, 0)], [Moment(103.0, 0, 0), Moment(110.0, 0, 1)], 2)
    summary = RunSummary(exit_code=0, epochs=[{"epoch": n, "examples": 50 * BATCH} for n in range(2)])
    found = long_run.measured(job, Load(1.0, 50 * BATCH, 2), summary)
    assert (found.wall_s, found.examples, found.kills) == (10.0, 90 * BATCH, 2)
    assert found.examples_per_s == 9 * BATCH and found.breaches == []
    assert found.lines == ((0.0, 10), (1.0, 20))


@pytest.mark.parametrize("code", [0, 1])
def test_a_run_that_failed_or_took_no_step_has_no_rate(code: int) -> None:
    with pytest.raises(JobFailed, match="a worker was lost"):
        summary = RunSummary(exit_code=code, cause="a worker was lost")
        long_run.measured(job_of([], [], 0), Load(1.0, 64, 1), summary)


def test_examples_lost_or_repeated_and_epochs_that_never_were_are_breaches() -> None:
    assert run_of(10.0).breaches == []
    assert run_of(10.0, missing=3, repeated=1).breaches == ["epoch 0: 3 missing", "epoch 0: 1 repeated"]
    short = LongRun(Load(1.0, 64, 2), run_of(1.0).summary, 1.0, 1, 0)
    assert short.breaches == ["1 of 2 epochs"]


def test_the_ratio_is_of_disturbed_to_undisturbed_runs_in_pairs() -> None:
    pairs = [(run_of(100.0), run_of(90.0, kills=2)), (run_of(50.0), run_of(47.0, kills=2, missing=4))]
    figures = endurance.figures_of(run_of(200.0), pairs)
    ratio = figures["faults.kill_every_5s.throughput_ratio"]
    assert ratio.samples == (0.9, 0.94) and ratio.unit == "x"
    assert figures["faults.kill_every_5s.missing"].value == 4
    assert figures["faults.kill_every_5s.demand"].samples == (0.5, 0.25)


def options_of(tmp_path: Path, repeats: int) -> argparse.Namespace:
    return argparse.Namespace(launcher=tmp_path / "launcher.py", minutes=1.0, repeats=repeats)


def test_undisturbed_and_disturbed_runs_take_turns_and_only_the_second_is_harmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float, tuple[str, ...]]] = []

    def noted(load: Load, launcher: Path, place: Path, faults: Sequence[str] = (), limit_s: float = 0.0) -> LongRun:
        asked.append((place.name, load.step_ms, tuple(faults)))
        spreads = {"step_ms": Spread.of([load.step_ms]), "wait_ms": Spread.of([0.0])}
        rate = 90.0 if faults else 100.0
        return LongRun(load, RunSummary(exit_code=0, wait_pct=90.0, **spreads), 1.0, round(rate), len(faults))

    monkeypatch.setattr(endurance, "long_run", noted)
    told: list[Event] = []
    record = endurance.run(options_of(tmp_path, 2), told.append, ("tfhet", "bench"))
    names = [name for name, _, _ in asked]
    assert names == ["guess", "calibration", "step", "undisturbed-0", "disturbed-0", "undisturbed-1", "disturbed-1"]
    assert [faults for _, _, faults in asked[3:]] == [(), (endurance.FAULT,)] * 2
    assert asked[1][1] == 0.0 and asked[3][1] == pytest.approx(1e3 * BATCH / 70.0)
    assert record.figures[endurance.RATIO].value == 0.9
    assert [row["run"] for row in record.details["rows"]] == [
        "calibration",
        *("undisturbed 1", "disturbed 1", "undisturbed 2", "disturbed 2"),
    ]
    assert [event.name for event in told] == ["case.ended"] * 5


def test_the_overhead_is_counted_run_by_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = overhead.Counted(run_of(100.0), CpuSeconds(2.0, 198.0), CpuSeconds(1.5, 48.5))
    monkeypatch.setattr(endurance, "long_run", lambda *_: run_of(100.0))
    monkeypatch.setattr(overhead, "count", lambda *_: counted)
    record = overhead.run(options_of(tmp_path, 3), lambda _: None, ())
    assert record.figures[overhead.OVERHEAD].samples == (1.0, 1.0, 1.0)
    assert len(record.details["rows"]) == len(record.details["runs_measured"]) == 3


def test_a_calibration_whose_workers_were_not_the_bottleneck_is_told() -> None:
    pairs = [(run_of(100.0), run_of(90.0))]
    assert "workers are not" not in str(endurance.details_of(run_of(1.0), Load(1.0, 1, 1), pairs))
    idle = LongRun(Load(0.0, 1, 1), RunSummary(exit_code=0, wait_pct=10.0), 1.0, 1, 0)
    assert "something else limits it" in str(endurance.details_of(idle, Load(1.0, 1, 1), pairs))


def test_the_overhead_is_the_launchers_share_with_and_without_the_start() -> None:
    counted = overhead.Counted(run_of(1.0), CpuSeconds(2.0, 198.0), CpuSeconds(1.5, 48.5))
    figures = overhead.figures_of([counted])
    assert figures["faults.supervision_overhead_pct"].value == pytest.approx(1.0)
    assert figures["faults.supervision_overhead_pct.training"].value == pytest.approx(100 * 0.5 / 150)


_BURN = "import time\nwhile time.process_time() < {}: pass\n"
_PARENT = "import subprocess, sys\n" + _BURN.format(0.2) + "subprocess.run([sys.executable, '-c', {!r}])\ninput()\n"


def test_the_account_tells_a_launcher_from_what_it_started_and_keeps_what_has_ended(tmp_path: Path) -> None:
    child = _BURN.format(0.8)
    parent = subprocess.Popen([sys.executable, "-c", _PARENT.format(child)], stdin=subprocess.PIPE)
    try:
        with CpuAccount(lambda: {"algo-1": parent.pid}) as account:
            import psutil

            seen = psutil.Process(parent.pid)
            for _ in range(600):  # until the child has come and gone
                account.look()
                if account.total().others and not seen.children():
                    break
                account._end.wait(0.05)
            assert not seen.children()
        total = account.total()
        assert 0.1 <= total.launchers < 0.6
        assert total.others >= 0.4
    finally:
        parent.kill()
        parent.communicate()


def test_a_process_that_is_gone_or_not_there_is_no_error() -> None:
    account = CpuAccount(lambda: {"algo-1": 2**22 + os.getpid()})
    account.look()
    assert account.total() == CpuSeconds(0.0, 0.0)
