"""Data hosts that are lost for good: training goes on without them, or ends and says why."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(240)]

EXAMPLES = 6000
QUICK = ["--lease_s", "3"]
# fmt: off
JOB = [
    "--model", "emulated", "--step_ms", "40", "--batch_size", "32", "--shuffle", "0", "--chain", "none",
    "--validation", "none", "--export", "false", "--data", f"synthetic:{EXAMPLES}:300:uneven", *QUICK,
]
# fmt: on


def names(run: Any) -> list[str]:
    return list(run.summary.cluster["data_group"]["hosts"])


def living(run: Any, *lost: str) -> set[int | None]:
    """The exit codes of all launchers except on the lost hosts."""
    return {code for member, code in run.summary.exit_codes.items() if member.split("/")[0] not in lost}


def events(run: Any, name: str) -> list[dict]:
    return [event for event in run.folder.events() if event["event"] == name]


def assert_each_example_once(run: Any, epochs: int) -> None:
    assert [epoch["epoch"] for epoch in run.summary.epochs] == list(range(epochs))
    for epoch in run.summary.epochs:
        assert (epoch["once"], epoch["missing"], epoch["repeated"]) == (EXAMPLES, 0, 0)


@pytest.mark.slow
def test_ranks_prepare_data_without_data_hosts(simulated):
    faults = ["kill:host@data-1:after=1", "kill:host@data-2:after=2"]
    run = simulated(*JOB, "--epochs", 3, "--on_data_loss", "local", data=2, channels={}, faults=faults)
    assert run.summary.exit_code == 0, run.summary.cause
    assert living(run, *names(run)) == {0}
    assert sorted(run.summary.lost_hosts) == sorted(names(run))
    assert_each_example_once(run, 3)
    assert len(run.found("(no data host is left)")) == 1


def test_job_without_data_hosts_ends_with_advice(simulated):
    run = simulated(*JOB, "--epochs", 50, ranks=1, channels={}, faults=["kill:host@data-1:after=1"])
    (host,) = names(run)
    assert run.summary.exit_code == 1
    assert living(run, host) == {1}
    assert host in run.summary.cause and "--on_data_loss local" in run.summary.cause
    assert list(run.summary.lost_hosts) == [host]
    assert any("--on_data_loss local" in text for text in run.failures().values())


@pytest.mark.slow
def test_returning_data_host_is_harmless(simulated):
    run = simulated(*JOB, "--epochs", 4, data=2, channels={}, faults=["hang:host@data-2:after=0.5:for=6"])
    _, second = names(run)
    assert run.summary.exit_code == 0, run.summary.cause
    assert living(run, second) == {0}
    assert list(run.summary.lost_hosts) == [second]
    assert_each_example_once(run, 4)


@pytest.mark.slow
def test_frozen_data_host_keeps_the_scripts_code(simulated, script):
    arguments = ["--train_script", script("leaves"), "--linger", 8, "--stall_timeout_s", 30, *QUICK]
    run = simulated(*arguments, data=2, ranks=1, channels={}, faults=["hang:host@data-2:after=3"])
    _, second = names(run)
    assert list(run.summary.lost_hosts) == [second]
    assert living(run, second) == {7}, run.summary.cause


@pytest.mark.slow
def test_validation_without_a_host_fails_at_once(simulated, script):
    arguments = ["--train_script", script("validates"), "--stall_timeout_s", 90, *QUICK]
    run = simulated(*arguments, data=2, ranks=1, channels={}, faults=["kill:host@data-2:after=6"], max_run_s=80.0)
    _, second = names(run)
    assert run.summary.exit_code == 1
    assert second in run.summary.cause and "stall_timeout" not in run.summary.cause
    assert all(line.endswith(" 101") for line in run.lines if re.search(r"epoch \d+ validated", line))
