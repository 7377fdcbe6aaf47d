from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfhet.cluster import HostPaths, Ports
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.training_job import COMPLETED, FAILED, STOPPED, failure_reason, status


@pytest.mark.parametrize(
    ("codes", "is_stopped", "expected"),
    [
        ({"algo-1": 0, "algo-2/0": 0}, False, COMPLETED),
        ({"algo-1": 0, "algo-2/0": 3}, False, FAILED),
        ({"algo-1": -9, "algo-2/0": 0}, False, FAILED),
        ({"algo-1": 143}, True, STOPPED),
        ({}, False, FAILED),
    ],
)
def test_one_bad_exit_code_fails_the_job(codes, is_stopped, expected):
    assert status(codes, is_stopped) == expected


def test_reason_is_the_first_failure_file(tmp_path: Path):
    hosts = []
    for number, age_s, text in ((1, 5, "a consequence" + "x" * 5000), (2, 9, "the cause")):
        paths = HostPaths(tmp_path / f"algo-{number}")
        paths.output_data.mkdir(parents=True)
        paths.failure.write_text(text)
        os.utime(paths.failure, (1e9 - age_s, 1e9 - age_s))
        hosts.append(SimulatedHost(f"algo-{number}", "g", "ml.m5.large", "127.0.0.2", Ports(), 2, paths))
    assert failure_reason(hosts, {"algo-1": 1, "algo-2/0": 3}) == "AlgorithmError: the cause, exit code: 3"
    reason = failure_reason(hosts, {"algo-1": 1, "algo-2/0": 0})
    assert len(reason) == len("AlgorithmError: , exit code: 1") + 1024, "only failed hosts count"
    assert failure_reason([], {"algo-2/1": -9}).startswith("AlgorithmError: , algo-2: SIGKILL")
