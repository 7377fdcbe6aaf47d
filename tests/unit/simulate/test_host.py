from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfhet.cluster import HostPaths, Ports, identify, job_name
from tfhet.messages import JobResultLine
from tfhet.record import RunFolder
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.training_job import COMPLETED, FAILED, STOPPED, completed, failure_reason, status

CONFIG = {
    "current_host": "algo-2",
    "current_instance_type": "ml.c5.xlarge",
    "current_group_name": "data_group",
    "hosts": ["algo-1", "algo-2"],
    "instance_groups": [
        {"instance_group_name": "dnn_group", "instance_type": "ml.p3.8xlarge", "hosts": ["algo-1"]},
        {"instance_group_name": "data_group", "instance_type": "ml.c5.xlarge", "hosts": ["algo-2"]},
    ],
    "network_interface_name": "lo",
}


def test_host_is_laid_out_like_sagemakers(tmp_path: Path):
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "file").write_text("data")
    paths, kept = HostPaths(tmp_path / "algo-2"), tmp_path / "kept" / "checkpoints"
    host = SimulatedHost("algo-2", "data_group", "ml.c5.xlarge", "127.0.0.3", Ports(), 1, paths)
    host.write(CONFIG, {"training": "File"}, {"epochs": "1"})
    for place, directory in host.directories({"training": tmp_path / "digits"}, tmp_path, kept).items():
        place.symlink_to(directory)
    assert (paths.base / "input" / "data" / "training" / "file").read_text() == "data"
    files = {path.name for path in (paths.base / "input" / "config").iterdir()}
    assert files == {"hyperparameters.json", "inputdataconfig.json", "resourceconfig.json"}
    assert all((paths.base / name).is_dir() for name in ("model", "output/data", "checkpoints", "code"))
    (paths.checkpoints / "one").touch()
    assert [path.name for path in kept.iterdir()] == ["one"], "checkpoints outlive the host"

    variables = host.variables(CONFIG, {"training": "File"}, {}, "job-1", ["launcher.py", "--epochs", "1"])
    assert variables["SM_CHANNEL_TRAINING"] == f"{paths.base}/input/data/training"
    nowhere = {"SAGEMAKER_BASE_DIR": "/nowhere", "SM_INPUT_CONFIG_DIR": "/nowhere"}
    assert identify(variables) == identify({**variables, **nowhere}), "the file and the variables differ"
    assert identify(variables).current_group == "data_group" and job_name(variables) == "job-1"


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


@pytest.mark.parametrize(
    ("failure", "log", "expected"),
    [
        ("the cause\nlog", "[algo-1] x", "the cause"),
        ("", f"[algo-1/0] {JobResultLine(3, 'the result')}\n[algo-1/0] bye", "the result"),
        (None, f"[algo-1] {JobResultLine(0, 'complete')}\n[algo-1] no space", "no space"),
        (None, None, "algo-1: exit code 1"),
    ],
    ids=["file", "line", "log", "nothing"],
)
def test_cause_without_a_record(tmp_path: Path, failure, log, expected):
    """A full disk may keep a host from writing its record and its failure file."""
    host = SimulatedHost("algo-1", "g", "ml.m5.large", "127.0.0.2", Ports(), 1, HostPaths(tmp_path / "algo-1"))
    host.paths.output_data.mkdir(parents=True)
    logs = RunFolder(tmp_path).create()
    if failure is not None:
        host.paths.failure.write_text(failure)
    if log is not None:
        logs.write_log("algo-1", log.encode() + b"\n")
    done = completed([host], {"algo-1": 1}, RunFolder(tmp_path / "leader"), None, None, logs)
    assert done.exit_code == 1 and expected in done.cause
