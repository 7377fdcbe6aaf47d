"""The times of a run, and the figures and limits of `benchmarks.launch`."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_clock import FakeClock

from benchmarks.job_scripts import SOURCE_DIR, stamp
from benchmarks.launch import suite as launch
from benchmarks.launch.flow_run import FLOWS, Flow, FlowRun, Load, flow_run, times
from benchmarks.launch.job_times import JobTimes
from tfhet.errors import JobFailed
from tfhet.events import Event
from tfhet.launch.settings import LaunchSettings
from tfhet.messages import FirstBatchLine
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate import ClusterFile, GroupFile
from tfhet.trainer.settings import Settings

LOAD = Load("small_cnn", 16, 2)
CLUSTER = ClusterFile(
    "flow", {"data_group": GroupFile(hosts=2), "dnn_group": GroupFile()}, {"training": "digits/train"}
)
LINES = [
    (51.0, "[stamp] launcher_begins"),
    (52.0, "[stamp] launcher_begins"),
    (60.0, "[stamp] first_batch"),
    (61.0, "[stamp] step step=1 step_ms=900.0"),
    (61.05, "[stamp] step step=2 step_ms=50.0"),
    (62.0, "[stamp] launcher_ends"),
    (63.0, "[stamp] launcher_ends"),
]


def read(lines: Sequence[tuple[float, str]]) -> JobTimes:
    clock = FakeClock(0.0)
    found = JobTimes(clock)
    for at_s, line in lines:
        clock.sleep(at_s - clock.wall())
        found.on_line(line)
    return found


def test_stamp_is_read_behind_any_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    stamp.stamp("step", step=3, step_ms="20.1")
    line = capsys.readouterr().out.strip()
    assert stamp.read(f"[1,mpirank:0,algo-2]<stdout>:{line}") == ("step", {"step": "3", "step_ms": "20.1"})
    assert stamp.read("[tfhet] step=3 epoch=0 step_ms=1.0") is None


def test_times_follow_from_start_and_last_step(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name, at_s in (("hosts.started", 50.0), ("host.ended", 63.5), ("host.ended", 93.0)):
        folder.write_event(Event(name, at_s, {}))
    found = times("example", LOAD, read(LINES), RunSummary(exit_code=0, started=49.0), folder)
    assert found.first_batch_s == 10.0 and found.first_step_s == 11.0
    assert found.teardown_s == pytest.approx(1.95) and found.containers_s == pytest.approx(31.95)
    assert found.step_ms == (900.0, 50.0), "a run without further steps has only these"


def test_steps_of_both_trainers_count_once() -> None:
    metrics = "[tfhet] step=1 epoch=0 step_ms=40.0 examples_per_s=3 wait_pct=0.0"
    own = read([(100.0, f"[algo-1/0] {FirstBatchLine(0.31)}"), (101.0, metrics)])
    script = read([(100.0, "[stamp] first_batch"), (101.0, "[stamp] step step=1 step_ms=40.0"), (102.0, metrics)])
    for found in (own, script):
        assert (found.first_batch_s, found.step_s, found.step_ms) == (100.0, [101.0], [40.0])


@pytest.mark.parametrize("dropped", [2, 4, 5])
def test_incomplete_log_fails_the_run(tmp_path: Path, dropped: int) -> None:
    lines = [line for index, line in enumerate(LINES) if index != dropped]
    with pytest.raises(JobFailed):
        times("example", LOAD, read(lines), RunSummary(exit_code=0, started=50.0), RunFolder(tmp_path))


def test_failed_job_names_its_cause(tmp_path: Path) -> None:
    summary = RunSummary(exit_code=1, cause="a rank was lost", started=50.0)
    with pytest.raises(JobFailed, match="a rank was lost"):
        times("example", LOAD, read(LINES), summary, RunFolder(tmp_path))


def run_of(step_ms: float, first_batch_s: float = 10.0, teardown_s: float = 1.0) -> FlowRun:
    return FlowRun(first_batch_s, first_batch_s + 1.0, (step_ms,) * 3, teardown_s, teardown_s + 30.0)


def test_figures_compare_pairs_of_a_round() -> None:
    example, own = [run_of(200.0, teardown_s=5.0), run_of(220.0, teardown_s=6.0)], [run_of(100.0)] * 2
    figures = launch.figures_of({"example": example, "tfhet": own, "script": [run_of(150.0)] * 2})
    assert figures["launch.step_vs_example"].samples == (2.0, 2.2)
    assert figures["launch.script.step_vs_example"].value == pytest.approx(1.4)
    assert figures["launch.example.teardown_s"].value == 5.5 and figures["launch.teardown_s"].value == 1.0
    assert "launch.step_vs_example" not in launch.figures_of({"tfhet": own})


def options_of(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--warmup", type=int)
    launch.SUITE.options(parser)
    return parser.parse_args(["--hosts", "process", *words])


def test_late_launcher_fails_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[str, int]] = []

    def run(flow: Flow, *what: object, seed: int, **how: object) -> FlowRun:
        order.append((flow.name, seed))
        return run_of(100.0, teardown_s=2.5)

    monkeypatch.setattr(launch, "flow_run", run)
    monkeypatch.setattr(launch, "write_channel", lambda *_: None)
    record = launch.SUITE.run(options_of("--repeats", "2", "--flows", "example,tfhet"), lambda event: None, ())
    assert order == [("example", 0), ("tfhet", 0), ("tfhet", 1), ("example", 1)]
    assert not launch.SUITE.is_kept(record) and len(launch.breaches(record)) == 1
    record.details["runs_measured"]["tfhet"] = []
    assert launch.SUITE.is_kept(record), "the example may be late"


def test_launcher_and_trainer_accept_the_arguments() -> None:
    for flow in FLOWS.values():
        assert (SOURCE_DIR / flow.launcher).is_file()
        settings, rest = LaunchSettings.parse([*flow.arguments, *LOAD.arguments])
        assert not settings.train_script or (SOURCE_DIR / settings.train_script).is_file()
        parsed = Settings.parse(rest)
        assert (parsed.model, parsed.batch_size, parsed.steps_per_epoch, parsed.epochs) == ("small_cnn", 16, 2, 1)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("flow", sorted(FLOWS))
def test_every_flow_trains_and_ends(flow: str, tmp_path: Path) -> None:
    for module in ("horovod", *(("tensorflow_addons",) if flow != "tfhet" else ())):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    load = Load("small_cnn", 16, 8)
    run = flow_run(FLOWS[flow], load, CLUSTER, tmp_path / "run", hosts="process", start="ranks", seed=0, limit_s=150.0)
    assert len(run.step_ms) == 3 and run.mean_step_ms > 0.0
    assert 0.0 < run.first_batch_s < run.first_step_s
    assert 0.0 < run.teardown_s <= run.containers_s
