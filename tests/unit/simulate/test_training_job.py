from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from tfhet.cluster import HostPaths, Ports
from tfhet.record import RunSummary
from tfhet.simulate import ClusterFile, GroupFile
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.submission import Submission
from tfhet.simulate.training_job import COMPLETED, FAILED, STOPPED, collect, describe, failure_reason, status


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


def test_what_all_hosts_left_is_packed_and_the_first_hosts_file_wins(hosts, tmp_path):
    (hosts[0].paths.model / "1").mkdir()
    (hosts[0].paths.model / "1" / "saved_model.pb").write_text("first")
    (hosts[1].paths.model / "1").mkdir()
    (hosts[1].paths.model / "1" / "saved_model.pb").write_text("second")
    (hosts[1].paths.model / "notes").write_text("of the second")
    assert set(collect(hosts, tmp_path)) == {"model.tar.gz"}  # there is no output
    with tarfile.open(tmp_path / "model.tar.gz") as archive:
        assert archive.getnames() == ["1/saved_model.pb", "notes"]
        assert archive.extractfile("1/saved_model.pb").read() == b"first"


def test_the_description_has_the_shape_of_the_platforms(tmp_path):
    (tmp_path / "launcher.py").touch()
    cluster = ClusterFile("c", {"dnn_group": GroupFile(2, 4, "ml.p3.8xlarge")}, {"training": "x"})
    job = Submission.of(cluster, ["launcher.py"], code=tmp_path, input_mode="FastFile")
    summary = RunSummary(status=FAILED, failure_reason="because")
    describe(job, tmp_path, summary, 0.0, 90.4, FAILED, tmp_path / "model.tar.gz")
    told = json.loads((tmp_path / "job.json").read_text())
    assert (told["TrainingJobStatus"], told["FailureReason"]) == ("Failed", "because")
    assert told["TrainingJobName"] == job.job
    group = {"InstanceGroupName": "dnn_group", "InstanceType": "ml.p3.8xlarge", "InstanceCount": 2}
    assert told["ResourceConfig"] == {"InstanceGroups": [group]}
    assert told["InputDataConfig"] == [{"ChannelName": "training", "InputMode": "FastFile"}]
    assert told["TrainingTimeInSeconds"] == 90
    assert told["TrainingStartTime"] == "1970-01-01T00:00:00.000+00:00"
    assert told["ModelArtifacts"] == {"S3ModelArtifacts": "model.tar.gz"}
