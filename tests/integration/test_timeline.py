"""The timeline of a whole cluster: every rank's steps, every process's use, on one axis."""

from __future__ import annotations

import json

import pytest

from tfhet.__main__ import main

pytestmark = [pytest.mark.horovod, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def noted(simulated):
    """One data host with two workers, one dnn host with two ranks."""
    model = ["--model", "small_cnn", "--chain", "digits", "--batch_size", 32, "--epochs", 4]
    return simulated("--timeline", "steps", "--data_host_workers", 2, *model)


def test_timeline_has_every_step_of_every_rank(noted):
    assert noted.summary.exit_code == 0, noted.summary.cause
    timeline = noted.folder.timeline()
    for rank in (0, 1):
        steps = [step for step in timeline.steps if step.rank == rank]
        assert [step.step for step in steps] == list(range(1, noted.summary.steps + 1))
        assert all(step.allreduce_s is not None for step in steps)
        assert all(step.wait_s <= step.dur_s for step in steps)
    assert any(step.allreduce_s for step in timeline.steps)
    assert {(pause.rank, pause.name) for pause in timeline.pauses} == {
        (0, "checkpoint"),
        (0, "validation"),
        (1, "validation"),
    }
    assert set(noted.summary.step_parts_ms) == {"wait", "copy", "compute", "allreduce"}


def test_timeline_has_every_process(noted):
    timeline = noted.folder.timeline()
    seen = {(use.member, name) for use in timeline.usage for name in use.processes}
    data_host = next(use.member for use in timeline.usage if not use.member.startswith("rank-"))
    assert {
        (data_host, "launcher"),
        (data_host, "worker-0"),
        (data_host, "worker-1"),
        ("rank-0", "launcher"),
        ("rank-0", "dispatcher"),
        ("rank-0", "rank-0"),
        ("rank-1", "launcher"),
        ("rank-1", "rank-1"),
    } == seen
    assert {use.member for use in timeline.usage if use.machine is not None} == {data_host, "rank-0"}
    assert {clock.host for clock in timeline.clocks} == set(timeline.hosts)


def test_command_writes_for_perfetto_and_tensorboard(noted, tmp_path, capsys):
    where = ["--chrome", str(tmp_path / "trace.json"), "--tensorboard", str(tmp_path / "boards")]
    assert main(["timeline", str(noted.folder.path), "--wide", *where]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("steps", "processes", "hosts", "worker-1", "allreduce %"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["name"] for event in events} >= {"step", "wait for data", "compute", "allreduce", "checkpoint"}
    assert sorted(path.name for path in (tmp_path / "boards").iterdir())[-2:] == ["rank-0", "rank-1"]
