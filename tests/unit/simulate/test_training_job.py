from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfhet.cluster import HostPaths, Ports
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.training_job import COMPLETED, FAILED, STOPPED, failure_reason, status


@pytest.fixture
def hosts(tmp_path: Path) -> list[SimulatedHost]:
    made = []
    for number in (1, 2):
        paths = HostPaths(tmp_path / "hosts" / f"algo-{number}")
        for folder in (paths.model, paths.output_data):
            folder.mkdir(parents=True)
        made.append(SimulatedHost(f"algo-{number}", "g", "ml.m5.large", "127.0.0.2", Ports(), 2, paths))
    return made


@pytest.mark.parametrize(
    ("codes", "stopped", "is_"),
    [
        ({"algo-1": 0, "algo-2/0": 0}, False, COMPLETED),
        ({"algo-1": 0, "algo-2/0": 3}, False, FAILED),
        ({"algo-1": -9, "algo-2/0": 0}, False, FAILED),
        ({"algo-1": 143}, True, STOPPED),
        ({}, False, FAILED),
    ],
)
def test_a_job_is_completed_when_everything_that_was_started_ended_well(codes, stopped, is_):
    assert status(codes, stopped) == is_


def test_the_reason_is_the_failure_file_that_was_written_first_of_a_host_that_failed(hosts):
    for host, age_s, text in zip(hosts, (5, 9), ("a consequence", "the cause"), strict=True):
        host.paths.failure.write_text(text)
        os.utime(host.paths.failure, (1e9 - age_s, 1e9 - age_s))
    assert failure_reason(hosts, {"algo-1": 1, "algo-2/0": 3}) == "AlgorithmError: the cause, exit code: 3"
    assert failure_reason(hosts, {"algo-1": 1, "algo-2/0": 0}) == "AlgorithmError: a consequence, exit code: 1"


def test_of_a_failure_file_a_thousand_characters_are_shown_and_without_one_the_codes(hosts):
    hosts[0].paths.failure.write_text("x" * 5000)
    reason = failure_reason(hosts, {"algo-1": 1})
    assert reason.count("x") == 1024 + 1  # the one of "exit"
    assert failure_reason(hosts, {"algo-2/1": -9}) == "AlgorithmError: , algo-2: SIGKILL (out of memory?)"
