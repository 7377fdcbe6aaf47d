"""Whole jobs with Ray to which something is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.chaos.expectation import FAILURE, GOES_ON
from benchmarks.chaos.outcome import ChaosOutcome
from benchmarks.chaos.suite import Planned

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]


@pytest.fixture
def became(tmp_path: Path, monkeypatch) -> Callable[[str], ChaosOutcome]:
    """The outcome of a job with a schedule that is kept."""
    monkeypatch.chdir(Path(__file__).parents[2])

    def run(name: str) -> ChaosOutcome:
        outcome = Planned(name, plane="ray").run(Path("scripts/launcher.py"), tmp_path / "run")
        assert outcome.breaches == []
        return outcome

    return run


def test_the_node_of_a_rank_ends_the_job_and_is_its_cause(became):
    outcome = became("node-of-a-rank")
    assert outcome.kind == FAILURE
    assert outcome.summary.cause.startswith(f"ray on {outcome.hosts['dnn-2']} ended by itself (SIGKILL")


@pytest.mark.slow
def test_ranks_read_each_example_once_though_a_node_and_a_host_are_lost(became):
    outcome = became("node-and-host")
    assert outcome.kind == GOES_ON
    assert (outcome.summary.restarts, list(outcome.summary.lost_hosts)) == (1, [outcome.hosts["data-2"]])
    assert [epoch["once"] for epoch in outcome.epochs] == [1437, 1437]
