"""A training that is told to stop, and the next one, which goes on with the very next example."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tfhet.trainer.ledger import Ledger

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(300)]

EXAMPLES = 6000
JOB = [
    "--model",
    "emulated",
    "--step_ms",
    "20",
    "--batch_size",
    "32",
    "--chain",
    "none",
    "--validation",
    "none",
    "--export",
    "false",
    "--data",
    f"synthetic:{EXAMPLES}:300:uneven",
]


def told_to_stop(run: Any) -> bool:
    """Whether it stopped as told, after looking at all that every stopped job promises."""
    codes = run.summary.exit_codes
    if run.summary.exit_code == 0:
        assert set(codes.values()) == {0}, codes
        return False
    assert set(codes.values()) == {143} and len(codes) == 3, (codes, run.summary.cause)
    assert "was told to stop (SIGTERM)" in run.summary.cause
    assert len(run.failures()) == 2 and all("was told to stop (SIGTERM)" in text for text in run.failures().values())
    events = {event["event"]: event["time_s"] for event in run.folder.events()}
    assert events["launchers.gone"] - events["job.stopping"] < 30
    return True


def assert_every_example_once(runs: list[Any], epochs: int) -> None:
    """That the runs together saw every example of each epoch once, and took every step once."""
    seen, steps, last = 0, 0, -1
    for run in runs:
        for epoch in run.summary.epochs:
            if epoch["epoch"] != last:
                assert seen in (0, EXAMPLES), f"epoch {last} was left with {seen} examples seen"
                assert epoch["epoch"] == last + 1
                last, seen = last + 1, 0
            assert (epoch["expected"], epoch["before"], epoch["repeated"]) == (EXAMPLES, seen, 0)
            assert epoch["seen"] == epoch["once"] == epoch["examples"]
            assert epoch["before"] + epoch["once"] + epoch["missing"] == EXAMPLES
            seen += epoch["once"]
            steps += epoch["steps"]
        assert run.summary.steps == steps
    assert (last, seen) == (epochs - 1, EXAMPLES)
    for run, following in zip(runs, runs[1:], strict=False):
        if run.summary.steps:
            assert [int(step) for _, step in following.found(r"resumed at epoch=(\d+) step=(\d+)")] == [
                run.summary.steps
            ]


def interrupted(simulated: Any, checkpoints: Path, times: int, epochs: int, seed: int, *arguments: object) -> list[Any]:
    """The runs of one training that is interrupted so often, at a random moment each, and the one that ends it."""
    drawn = random.Random(seed)
    runs = []
    for _ in range(times):
        host, after_s = drawn.choice(("data-1", "dnn-1")), drawn.uniform(0.0, 1.2)
        fault = f"sigterm:launcher@{host}:after={after_s:.3f}"
        job = [*JOB, "--epochs", epochs, *arguments]
        runs.append(simulated(*job, channels={}, checkpoints=checkpoints, faults=[fault]))
        assert told_to_stop(runs[-1]), "it ended before it was told to stop"
    runs.append(simulated(*JOB, "--epochs", epochs, *arguments, channels={}, checkpoints=checkpoints))
    assert not told_to_stop(runs[-1])
    return runs


@pytest.mark.slow
def test_a_training_interrupted_anywhere_sees_every_example_of_each_epoch_exactly_once(simulated, tmp_path):
    runs = interrupted(simulated, tmp_path, 2, 4, 11, "--shuffle", 0)
    assert_every_example_once(runs, 4)


@pytest.mark.slow
def test_a_stopped_training_leaves_its_ledger_and_goes_on_with_what_a_shuffle_buffer_held(simulated, tmp_path):
    fault = ["sigterm:launcher@dnn-1:after=0.8"]
    job = [*JOB, "--epochs", 3, "--shuffle", 500]
    first = simulated(*job, channels={}, checkpoints=tmp_path, faults=fault)
    assert told_to_stop(first)
    (newest,) = sorted(tmp_path.glob("checkpoint-*"))[-1:]
    assert newest.name == f"checkpoint-{first.summary.steps:010d}"
    ledger = Ledger.read(newest / "ledger.npz")
    assert ledger is not None
    assert 0 < ledger.ids.size < EXAMPLES  # most splits were open
    assert first.summary.metrics == {} and not list(first.hosts.glob("*/model/*"))
    second = simulated(*job, channels={}, checkpoints=tmp_path)
    assert not told_to_stop(second)
    assert_every_example_once([first, second], 3)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_interruptions_of_one_training_cost_no_example(simulated, tmp_path):
    runs = interrupted(simulated, tmp_path, 20, 16, 20, "--shuffle", 500)
    assert_every_example_once(runs, 16)
