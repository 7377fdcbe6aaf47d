"""submit/submission.py and `tfhet submit`: the code that is packed, what is sent, and what is shown of it."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_clock import FakeClock

from tfhet.__main__ import main
from tfhet.control import SECRET_VARIABLE
from tfhet.errors import TfhetError, UsageError
from tfhet.profile import Cost, Profile
from tfhet.submit import Archive, Code, JobSubmission, archive as module, read

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits"


@pytest.fixture
def code(tmp_path: Path) -> Code:
    folder = tmp_path / "src"
    (folder / "package").mkdir(parents=True)
    (folder / "launcher.py").write_text("print('starts')\n")
    (folder / "package" / "b.py").write_text("")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    return Code(folder, "launcher.py", "s3://my-bucket/some/code")


def members(packed: Archive) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(packed.content), mode="r:gz") as opened:
        return {member.name: member for member in opened.getmembers()}


def test_archive_has_all_files_readable(code):
    modes = {name: oct(member.mode) for name, member in members(Archive.of(code)).items()}
    assert modes == {"launcher.py": "0o644", "package/b.py": "0o644", "run.sh": "0o755"}


def test_archive_depends_on_content_only(code):
    first = Archive.of(code)
    os.utime(code.directory / "launcher.py", (1, 1))
    (code.directory / "package" / "b.py").chmod(0o600)
    cached = code.directory / "__pycache__" / "launcher.cpython-311.pyc"
    cached.parent.mkdir()
    cached.write_bytes(b"")
    assert Archive.of(code) == first
    (code.directory / "launcher.py").write_text("print('starts otherwise')\n")
    second = Archive.of(code)
    assert first.uri != second.uri, "a running job keeps its code"
    assert second.place == {"Bucket": "my-bucket", "Key": second.uri.removeprefix("s3://my-bucket/")}
    assert second.place["Key"].startswith("some/code/") and second.place["Key"].endswith("/sourcedir.tar.gz")


@pytest.mark.parametrize(
    "name", [".env.local", ".aws/credentials", ".ssh/id_ed25519", "keys/id_rsa", "tls/KEY.PEM", ".netrc", "kaggle.json"]
)
def test_secrets_are_left_out_and_named(name, code):
    secret = code.directory / name
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("password")
    packed = Archive.of(code)
    assert set(members(packed)) == {"launcher.py", "package/b.py", "run.sh"}
    assert [secret.is_relative_to(code.directory / left) for left in packed.left_out] == [True]


def test_private_key_of_any_name_is_left_out(code):
    (code.directory / "deploy").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n")
    (code.directory / "keys.py").write_text('HEAD = "-----BEGIN OPENSSH PRIVATE KEY-----"\n')
    packed = Archive.of(code)
    assert packed.left_out == ("deploy",) and "keys.py" in members(packed)


def test_only_links_to_own_files_are_packed(code, tmp_path):
    (code.directory / "linked.py").symlink_to("run.sh")
    assert members(Archive.of(code))["linked.py"].size == len("#!/bin/sh\n")
    (tmp_path / "else.py").write_text("x = 1\n")
    for target in (tmp_path, tmp_path / "nowhere", tmp_path / "else.py"):
        link = code.directory / "wrong"
        link.symlink_to(target)
        with pytest.raises(UsageError, match="wrong"):
            Archive.of(code)
        link.unlink()


def test_pipes_and_sockets_are_refused(code):
    os.mkfifo(code.directory / "wrong")
    with pytest.raises(UsageError, match="wrong"):
        Archive.of(code)


def test_large_file_is_refused_unread(code):
    with (code.directory / "data.bin").open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(UsageError, match="channel"):
        Archive.of(code)


def test_large_directory_is_refused(code, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 20)
    with pytest.raises(UsageError, match="channel"):
        Archive.of(code)


@pytest.fixture
def submission(jobs: Path) -> JobSubmission:
    return JobSubmission.of(read(jobs / "heterogeneous.yaml"), clock=FakeClock())


class Service:
    """A service of AWS that notes requests, and answers or raises."""

    def __init__(self, answer: Any = None):
        self.asked: list[dict[str, Any]] = []
        self.answer = answer

    def create_training_job(self, **request: Any) -> dict[str, str]:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"TrainingJobArn": ARN}

    put_object = create_training_job


def test_code_is_stored_before_the_job(submission):
    s3, sagemaker = Service(), Service()
    assert submission.send(sagemaker, s3) == ARN
    (stored,), (request,) = s3.asked, sagemaker.asked
    uri = f"s3://{stored['Bucket']}/{stored['Key']}"
    assert request["HyperParameters"]["sagemaker_submit_directory"] == f'"{uri}"'
    with tarfile.open(fileobj=io.BytesIO(stored["Body"])) as packed:
        assert packed.getnames() == ["launcher.py", "train.py"]


def test_each_submission_has_its_own_secret(jobs):
    job = read(jobs / "spot.yaml")
    first, second = JobSubmission.of(job, clock=FakeClock()), JobSubmission.of(job, "mine", clock=FakeClock())
    assert first.name.startswith("spot-19700101-0")
    assert second.name == second.request["TrainingJobName"] == "mine"
    secrets = [one.request["Environment"][SECRET_VARIABLE] for one in (first, second)]
    assert secrets == [first.secret, second.secret]
    assert len(set(secrets)) == 2 and min(map(len, secrets)) > 60


def test_secret_is_never_shown(submission):
    assert submission.secret not in f"{submission!r} {submission} {submission.shown}"
    wrong = pytest.importorskip("botocore.exceptions")
    refused = {"Error": {"Code": "ValidationException", "Message": f"no good: {submission.secret}"}}
    with pytest.raises(TfhetError, match="ValidationException") as raised:
        submission.send(Service(wrong.ClientError(refused, "CreateTrainingJob")), Service())
    assert submission.secret not in str(raised.value)


def test_job_without_stored_code_is_not_created(submission):
    wrong = pytest.importorskip("botocore.exceptions")
    sagemaker = Service()
    with pytest.raises(UsageError, match="credentials"):
        submission.send(sagemaker, Service(wrong.NoCredentialsError()))
    assert sagemaker.asked == []


def test_tuning_job_is_created(jobs):
    job = replace(read(jobs / "tuning.yaml"), name="digits-with-a-long-name")
    made = JobSubmission.of(job, clock=FakeClock())
    assert made.name.startswith("digits-with-a-lo-1970") and len(made.name) <= 32
    sagemaker = Service()
    sagemaker.create_hyper_parameter_tuning_job = lambda **request: (
        sagemaker.asked.append(request) or {"HyperParameterTuningJobArn": ARN}
    )
    assert made.send(sagemaker, Service()) == ARN
    assert sagemaker.asked[0]["HyperParameterTuningJobName"] == made.name
    with pytest.raises(UsageError, match="at most 32 characters"):
        JobSubmission.of(read(jobs / "tuning.yaml"), "a" * 33)


def submitted(*words: object) -> int:
    return main(["submit", *map(str, words)])


def test_dry_run_needs_no_boto3(jobs, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    written = tmp_path / "request.json"
    assert submitted(jobs / "spot.yaml", "--dry_run", "--name", "mine", "--json", written) == 0
    out, err = capsys.readouterr()
    request = json.loads(out)
    assert request["TrainingJobName"] == "mine" and request == json.loads(written.read_text())
    assert request["Environment"].keys() == {"TFHET_SECRET"} and " " in request["Environment"]["TFHET_SECRET"]
    assert "several groups and spot" in err
    assert submitted(jobs / "spot.yaml") == 2
    assert "boto3" in capsys.readouterr().err


def test_highest_cost_of_tuning_is_printed(jobs, tmp_path, capsys):
    assert submitted(jobs / "tuning.yaml", "--dry_run") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["TrainingJobDefinition"]["ResourceConfig"]["InstanceGroups"]
    assert "several groups and tuning: SageMaker decides" in err
    assert "at most 20 training jobs of at most 14400 s; their highest cost is not known: no price of training" in err
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "prices: [{region: us-east-1, market: sagemaker training, source: a test, date: 2026-11-30,"
        " usd_per_hour: {ml.c5.18xlarge: 4, ml.p4d.24xlarge: 32}}]"
    )
    assert submitted(jobs / "tuning.yaml", "--dry_run", "--instances", prices) == 0
    assert "at 40 USD per hour: at most 3,200.00 USD on demand" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--wait",), ("--alarms", "alarms.json")])
def test_options_for_training_jobs_are_refused(jobs, option, capsys):
    assert submitted(jobs / "tuning.yaml", *option) == 2
    assert f"{option[0]} is for one training job" in capsys.readouterr().err


@pytest.fixture
def own_file(jobs, tmp_path) -> Path:
    """A copy of one-rank.yaml that may be changed."""
    (tmp_path / "job.yaml").write_text((jobs / "one-rank.yaml").read_text())
    (tmp_path / "code").symlink_to(jobs / "code")
    return tmp_path / "job.yaml"


@pytest.mark.parametrize(("argument", "named"), [("lease_s: -1", "--lease_s"), ("job-seed: x", "'x'")])
def test_launcher_arguments_are_checked(own_file, argument, named, capsys):
    own_file.write_text(f"{own_file.read_text()}hyperparameters: {{{argument}}}\n")
    assert submitted(own_file, "--dry_run") == 2
    error = capsys.readouterr().err
    assert f":11: hyperparameters: {argument.partition(':')[0]} " in error and named in error


def test_volume_that_instance_store_replaces_is_noted(own_file, capsys):
    for volume_gib, is_noted in ((250, False), (251, True)):
        own_file.write_text(re.sub(r"max_run_s: \d+", rf"\g<0>, volume_gib: {volume_gib}", own_file.read_text()))
        assert submitted(own_file, "--dry_run") == 0
        assert ("ml.g5.xlarge has its own disks of 250 GB only" in capsys.readouterr().err) == is_noted
        own_file.write_text(own_file.read_text().replace(f", volume_gib: {volume_gib}", ""))


def test_own_instance_types_are_known(own_file, tmp_path, capsys):
    own_file.write_text(own_file.read_text().replace("ml.g5.xlarge", "ml.new.xlarge"))
    assert submitted(own_file, "--dry_run") == 2
    assert "ml.new.xlarge" in capsys.readouterr().err
    (tmp_path / "types.yaml").write_text("instances: {ml.new.xlarge: {vcpus: 8, memory_gib: 32}}")
    assert submitted(own_file, "--dry_run", "--instances", tmp_path / "types.yaml") == 0
    assert json.loads(capsys.readouterr().out)["ResourceConfig"]["InstanceType"] == "ml.new.xlarge"


def test_plan_is_written_into_the_job_file(own_file, tmp_path, capsys):
    made = {"bytes_per_example": 1000, "dtype": "uint8", "examples": 500}
    costs = (Cost("read", (10.0, 11.0), kind="Source", **made), Cost("blur()", (100.0, 102.0), kind="Stage", **made))
    profile = str(Profile("pipeline", costs).record().write(tmp_path / "profile.json"))
    words = ["plan", "--profile", profile, "--cluster", "ml.g5.xlarge", "--data", "ml.c5", "--accelerator_ms", "5"]
    assert main([*words, "--market", "ec2", "--max_hosts", "2", "--write", str(own_file)]) == 0
    assert str(own_file) in capsys.readouterr().out and "cut" in read(own_file).pipeline
    types = tmp_path / "types.yaml"
    types.write_text(
        "instances: {ml.new.xlarge: {vcpus: 8, memory_gib: 32, gpus: 1, gpu_kind: A10G, gpu_memory_gib: 24}}"
    )
    own_file.write_text(own_file.read_text().replace("ml.g5.xlarge", "ml.new.xlarge"))
    words[words.index("ml.g5.xlarge")] = "ml.new.xlarge"
    assert main([*words, "--instances", str(types), "--write", str(own_file)]) == 0
    assert "ml.new.xlarge" in own_file.read_text()
