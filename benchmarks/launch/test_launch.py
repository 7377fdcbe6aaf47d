"""bench/launch.py, flow_run.py, flow_ear.py and flow/stamp.py: what is heard of two launchers, and made of it."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_clock import FakeClock

from benchmarks.job_scripts import SOURCE_DIR, stamp
from benchmarks.launch import flow_run, suite as launch
from benchmarks.launch.flow_run import FLOWS, Flow, FlowRun, Load, times
from benchmarks.launch.listener import JobListener
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Event
from tfhet.launch.settings import LaunchSettings
from tfhet.messages import FirstBatchLine
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate import ClusterFile, GroupFile
from tfhet.trainer.settings import Settings

LOAD = Load("small_cnn", 16, 2)
CLUSTER = ClusterFile("launch", {"data_group": GroupFile(), "dnn_group": GroupFile()}, {"training": "data"})


def run_of(flow: str, step_ms: float, first_batch_s: float = 10.0, teardown_s: float = 1.0) -> FlowRun:
    return FlowRun(flow, first_batch_s, first_batch_s + 1.0, (step_ms,) * 3, teardown_s, teardown_s + 30.0)


def test_a_stamp_is_read_as_it_was_printed_whatever_stands_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    stamp.stamp("step", step=3, step_ms="20.1")
    line = capsys.readouterr().out.strip()
    assert stamp.read(f"[1,mpirank:0,algo-2]<stdout>:{line}") == ("step", {"step": "3", "step_ms": "20.1"})
    assert stamp.read("[tfhet] step=3 epoch=0 step_ms=1.0") is None


def heard(lines: Sequence[tuple[float, str]]) -> JobListener:
    clock = FakeClock(0.0)
    listener = JobListener(clock)
    for at_s, line in lines:
        clock.sleep(at_s - clock.wall())
        listener.hear(line)
    return listener


EXAMPLE_LINES = [
    (51.0, "[stamp] launcher_begins"),
    (52.0, "[stamp] launcher_begins"),
    (60.0, "[stamp] first_batch"),
    (61.0, "[stamp] step step=1 step_ms=900.0"),
    (61.05, "[stamp] step step=2 step_ms=50.0"),
    (62.0, "[stamp] launcher_ends"),
    (63.0, "[stamp] launcher_ends"),
]


def test_the_times_of_a_run_are_from_its_start_and_from_the_end_of_its_last_step(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name, at_s in (("hosts.started", 50.0), ("host.ended", 63.5), ("host.ended", 93.0)):
        folder.write_event(Event(name, at_s, {}))
    found = times("example", LOAD, heard(EXAMPLE_LINES), RunSummary(exit_code=0, started=49.0), folder)
    assert found.first_batch_s == 10.0 and found.first_step_s == 11.0
    assert found.teardown_s == pytest.approx(1.95) and found.containers_s == pytest.approx(31.95)
    assert found.step_ms == (900.0, 50.0)  # no more steps than the warm-up has: all count


def test_lines_of_both_trainers_count_when_they_are_heard() -> None:
    step = "[tfhet] step=1 epoch=0 step_ms=40.0 examples_per_s=3 wait_pct=0.0"
    own = heard([(100.0, f"[algo-1/0] {FirstBatchLine(0.31)}"), (101.0, step)])
    other = heard([(100.0, "[stamp] first_batch"), (101.0, "[stamp] step step=1 step_ms=40.0")])
    for listener in (own, other):
        assert (listener.first_batch_s, listener.step_s, listener.step_ms) == (100.0, [101.0], [40.0])


@pytest.mark.parametrize(
    ("dropped", "missing"), [(2, "a first batch"), (4, "2 steps"), (5, "the end of its launchers")]
)
def test_a_run_that_did_not_say_what_was_waited_for_is_a_failure_that_names_it(
    tmp_path: Path, dropped: int, missing: str
) -> None:
    lines = [line for index, line in enumerate(EXAMPLE_LINES) if index != dropped]
    with pytest.raises(JobFailed, match=missing):
        times("example", LOAD, heard(lines), RunSummary(exit_code=0, started=50.0), RunFolder(tmp_path))


def test_a_job_that_failed_says_why(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match="a rank was lost"):
        summary = RunSummary(exit_code=1, cause="a rank was lost", started=50.0)
        times("example", LOAD, heard(EXAMPLE_LINES), summary, RunFolder(tmp_path))


def test_the_figures_hold_the_examples_beside_them() -> None:
    runs = {
        "example": [run_of("example", 200.0, 20.0, 5.0), run_of("example", 220.0, 22.0, 6.0)],
        "tfhet": [run_of("tfhet", 100.0), run_of("tfhet", 100.0)],
        "script": [run_of("script", 150.0), run_of("script", 150.0)],
    }
    figures = launch.figures_of(runs)
    assert figures["launch.step_vs_example"].samples == (2.0, 2.2)
    assert figures["launch.first_batch_s"].value == 10.0
    assert "21" in (figures["launch.first_batch_s"].against or "")
    assert figures["launch.example.teardown_s"].value == 5.5
    assert figures["launch.script.step_vs_example"].value == pytest.approx(1.4)
    assert [row["runs"] for row in launch.rows(runs)] == [2, 2, 2]


def test_without_the_example_nothing_is_compared() -> None:
    figures = launch.figures_of({"tfhet": [run_of("tfhet", 100.0)]})
    assert "launch.step_vs_example" not in figures and figures["launch.teardown_s"].against is None


def options_of(**given: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--warmup", type=int)
    launch.SUITE.options(parser)
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    return parser.parse_args(words)


def test_flows_take_turns_and_a_late_launcher_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def noted(flow: Flow, load: Load, cluster: object, folder: Path, *, seed: int, **_: object) -> FlowRun:
        asked.append((flow.name, seed))
        return run_of(flow.name, 100.0, teardown_s=2.5)

    monkeypatch.setattr(launch, "flow_run", noted)
    monkeypatch.setattr(launch, "write_apart", lambda *_: None)
    record = launch.SUITE.run(options_of(repeats=2, flows="example,tfhet"), lambda event: None, ("tfhet", "bench"))
    assert asked == [("example", 0), ("tfhet", 0), ("tfhet", 1), ("example", 1)]
    assert len(launch.breaches(record)) == 1  # the example may be late
    assert not launch.SUITE.is_kept(record)


def test_a_run_ends_within_an_epoch_of_at_least_as_many_examples_as_the_examples_data_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[tuple[object, ...]] = []
    monkeypatch.setattr(launch, "write_apart", lambda *given: written.append(given))
    assert launch.channel_of_digits(Path("data"), options_of()) == 50_176
    assert launch.channel_of_digits(Path("data"), options_of(steps=1000)) == 128_000
    assert written == [(Path("data"), "aws-cifar", 512, 98), (Path("data"), "aws-cifar", 512, 250)]


def test_an_unknown_flow_is_refused_with_those_that_are_known() -> None:
    for flows, named in (("example,mine", "'mine'"), ("", "''"), (",", "','")):
        with pytest.raises(UsageError, match=f"--flows {named}; known: cold, example, script, tfhet"):
            launch.SUITE.run(options_of(flows=flows), lambda event: None, ())


def test_every_flow_has_its_launcher_and_its_script_and_asks_the_trainer_for_the_same() -> None:
    for flow in FLOWS.values():
        assert (SOURCE_DIR / flow.launcher).is_file()
        settings, rest = LaunchSettings.parse([*flow.arguments, *LOAD.arguments])
        assert not settings.train_script or (SOURCE_DIR / settings.train_script).is_file()
        asked = Settings.parse(rest)
        assert (asked.model, asked.batch_size, asked.steps_per_epoch, asked.epochs) == ("small_cnn", 16, 2, 1)


@pytest.mark.parametrize("flow", sorted(FLOWS))
def test_the_hosts_of_a_cold_flow_begin_with_an_empty_cache(
    flow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches: list[str | None] = []

    def simulated(*given: Any, env: Mapping[str, str], **options: Any) -> RunSummary:
        caches.append(env.get("XDG_CACHE_HOME"))
        raise JobFailed("far enough", code=1)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(flow_run, "simulate", simulated)
    for index in range(2):
        with pytest.raises(JobFailed, match="far enough"):
            flow_run.flow_run(
                FLOWS[flow], LOAD, CLUSTER, tmp_path / f"run-{index}", hosts="process", start="ranks", seed=0, limit_s=1
            )
    if FLOWS[flow].is_cold:
        assert len(set(caches)) == 2 and all(cache and not any(Path(cache).iterdir()) for cache in caches)
    else:
        assert caches == [str(tmp_path)] * 2


def test_hosts_that_are_processes_have_no_quota() -> None:
    assert {group.cpus for group in launch.cluster_of(options_of(hosts="process"), Path("data")).groups.values()} == {
        None
    }
    assert {group.cpus for group in launch.cluster_of(options_of(cpus=0.25), Path("data")).groups.values()} == {0.25}


def test_a_script_loads_nothing_of_the_harness_before_it_runs() -> None:
    light = {
        "benchmarks.job_scripts.stamp",
        "tfhet.bench",
        "tfhet.clock",
        "tfhet.cluster",
        "tfhet.errors",
        "tfhet.process",
        "tfhet.launch",
        "tfhet.strategies",
    }
    for script in SOURCE_DIR.glob("*.py"):
        tree = ast.parse(script.read_text(encoding="utf-8"))
        found = {node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module}
        assert {name for name in found if name.startswith("tfhet")} <= light, script.name
