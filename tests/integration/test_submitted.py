"""A request of `tfhet submit`, as SageMaker's toolkit runs it, beside the same job in `tfhet simulate --job`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tfhet.__main__ import main
from tfhet.container import kernel
from tfhet.control import SECRET_VARIABLE
from tfhet.simulate import ClusterFile, GroupFile, simulate
from tfhet.submit import JobSubmission, read

pytestmark = [pytest.mark.timeout(280), pytest.mark.mpi, pytest.mark.slow]

JOB = """\
name: told
image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:0.1
role: arn:aws:iam::123456789012:role/training
output: s3://my-bucket/jobs
code: {directory: code, script: tells.py}
hyperparameters: {learning-rate: 1e-3, export: false, note: 'two words, "quoted"', s: one, epochs: 2}
pipeline: {cut: 1, data_host_workers: 2}
environment: {NCCL_DEBUG: WARN, OF_THE_JOB: 'a b'}
channels:
  training: {uri: "s3://my-bucket/train", local: data, groups: [readers, trainers], mode: FastFile}
  validation: {uri: "s3://my-bucket/validation", local: data, groups: [trainers]}
groups:
  readers: {type: ml.c5.xlarge, count: 1, role: data}
  trainers: {type: ml.p3.8xlarge, count: 1, role: dnn, ranks: 2}
limits: {max_run_s: 600}
"""
OF_A_RUN = ("OMPI_", "PMIX_", "PRTE_", "SSH_")
"""How the names of variables begin that mpirun and sshd make up for each run."""
FROM_THE_SDK = ("SM_FRAMEWORK_PARAMS", "SM_TRAINING_ENV", "SM_MODULE_DIR")
"""These tell where the code lies in S3, which a simulation does not have."""


def told(record: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The reports of each launcher of a run, by its group and rank, without what differs from run to run."""
    found = {}
    for file in sorted(record.glob("hosts/*/output/data/tells-*.json")):
        said = json.loads(re.sub(r"(told|sent)-\d{8}-\d{6}(-\d{3})?|submitted-job", "OWN", file.read_text()))
        kept = {
            name: value
            for name, value in said.pop("environment").items()
            if not name.startswith(OF_A_RUN) and name not in FROM_THE_SDK
        }
        said["environment"] = {**kept, **({SECRET_VARIABLE: "given"} if kept.get(SECRET_VARIABLE) else {})}
        found[said["group"], said["rank"]] = said
    return found


def test_request_equals_the_simulated_job(tmp_path, repository):
    if lacking := kernel.missing("toolkit", tmp_path):
        pytest.skip("; ".join(f"{feature.name}: {feature.what_to_do}" for feature in lacking))
    (tmp_path / "code").mkdir()
    (tmp_path / "data").mkdir()
    shutil.copy(repository / "tests" / "integration" / "scripts" / "tells.py", tmp_path / "code")
    (tmp_path / "job.yaml").write_text(JOB)
    asked = ["simulate", "--job", str(tmp_path / "job.yaml"), "--hosts", "namespace", "--max-run-s", "120"]
    assert main([*asked, "--run-dir", str(tmp_path / "simulated")]) == 0

    request = JobSubmission.of(read(tmp_path / "job.yaml"), "submitted-job").request
    parameters = request["HyperParameters"]
    ranks = json.loads(parameters["sagemaker_mpi_num_of_processes_per_host"])
    groups = {
        group["InstanceGroupName"]: GroupFile(group["InstanceCount"], ranks, group["InstanceType"])
        for group in request["ResourceConfig"]["InstanceGroups"]
    }
    seen = {
        channel["ChannelName"]: channel["DataSource"]["S3DataSource"]["InstanceGroupNames"]
        for channel in request["InputDataConfig"]
    }
    summary = simulate(
        ClusterFile("sent", groups, {name: str(tmp_path / "data") for name in seen}),
        [json.loads(parameters["sagemaker_program"]), "--dnn_group", json.loads(parameters["dnn_group"])],
        tmp_path / "sent",
        hosts="namespace",
        code=tmp_path / "code",
        max_run_s=120.0,
        parameters=parameters,
        environment=request["Environment"],
        channel_groups=seen,
        input_modes={channel["ChannelName"]: channel["InputMode"] for channel in request["InputDataConfig"]},
    )
    assert summary.succeeded, summary.cause

    simulated, sent = (told(tmp_path / name) for name in ("simulated", "sent"))
    assert set(sent) == {("readers", "none"), ("trainers", "0"), ("trainers", "1")}
    for who in sent:
        assert sent[who]["arguments"] == simulated[who]["arguments"]
        assert sent[who]["started_by"] == simulated[who]["started_by"]
        assert sent[who]["environment"] == simulated[who]["environment"]
    assert sent["trainers", "1"]["environment"][SECRET_VARIABLE] == "given"
    assert sent["trainers", "0"]["arguments"][1:5] == ["--cut", "1", "--data_group", "readers"]
    assert sent["readers", "none"]["environment"]["OF_THE_JOB"] == "a b"
    assert "SM_CHANNEL_VALIDATION" not in sent["readers", "none"]["environment"]
