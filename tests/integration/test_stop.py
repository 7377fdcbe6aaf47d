"""A training that is told to stop, and the next run, which continues with the next example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfhet.trainer.manifest import Ledger

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(300)]

EXAMPLES = 6000
# fmt: off
JOB = [
    "--model", "emulated", "--step_ms", "20", "--batch_size", "32", "--chain", "none", "--validation", "none",
    "--export", "false", "--data", f"synthetic:{EXAMPLES}:300:uneven",
]
# fmt: on

TARGETS = (("launcher@data-1",), ("launcher@dnn-1",), ("host@data-1", "host@dnn-1"))


def told_to_stop(run: Any) -> bool:
    """Whether it stopped on request, after asserting what holds for every stopped job."""
    codes = run.summary.exit_codes
    if run.summary.exit_code == 0:
        assert set(codes.values()) == {0}, codes
        return False
    assert set(codes.values()) == {143} and len(codes) == 3, (codes, run.summary.cause)
    assert "(SIGTERM)" in run.summary.cause
    assert len(run.failures()) == 2 and all("(SIGTERM)" in text for text in run.failures().values())
    return True


def assert_every_example_once(runs: list[Any], epochs: int) -> None:
    """Asserts that the runs together saw every example of each epoch once, and took every step once."""
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


def interrupted(simulated: Any, checkpoints: Path, times: int, epochs: int, *arguments: object) -> list[Any]:
    """The runs of one training that is interrupted `times` times, and the one that ends it.

    The interruptions hit the data host, the dnn host and both (as with spot instances) in turn, at moments spread
    evenly over the first 1.2 s of training. Each leaves a checkpoint of its last step, with a ledger of what had been
    consumed.
    """
    runs: list[Any] = []
    ledgers: list[Ledger] = []
    for number in range(times):
        targets, after_s = TARGETS[number % len(TARGETS)], 1.2 * (number + 0.5) / times
        faults = [f"sigterm:{target}:after={after_s:.3f}" for target in targets]
        job = [*JOB, "--epochs", epochs, *arguments]
        runs.append(simulated(*job, channels={}, checkpoints=checkpoints, faults=faults))
        assert told_to_stop(runs[-1]), "it ended before it was told to stop"
        assert runs[-1].summary.metrics == {} and not list(runs[-1].hosts.glob("*/model/*"))
        if runs[-1].summary.steps:
            newest = max(checkpoints.glob("checkpoint-*"))
            assert newest.name.endswith(f"-{runs[-1].summary.steps:010d}")
            ledgers += map(Ledger.read, newest.glob("ledger.npz"))
    assert any(0 < len(ledger.rest.seen.ids()) < EXAMPLES for ledger in ledgers)  # most splits were open
    runs.append(simulated(*JOB, "--epochs", epochs, *arguments, channels={}, checkpoints=checkpoints))
    assert not told_to_stop(runs[-1])
    return runs


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_interrupted_shuffled_training_resumes_exactly(simulated, tmp_path):
    runs = interrupted(simulated, tmp_path, 3, 6, "--shuffle", 500)
    assert_every_example_once(runs, 6)
