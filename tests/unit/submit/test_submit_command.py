from __future__ import annotations

import argparse
import json
import sys

import pytest

from tfhet.cli import plan as plan_command, submit as command
from tfhet.errors import UsageError
from tfhet.submit import job_file, planned


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    plan_command.add(commands)
    command.add(commands)
    args = parser.parse_args([str(word) for word in words])
    return int(args.run(args))


def test_a_dry_run_prints_the_request_without_the_secret_and_needs_no_boto3(jobs, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    written = tmp_path / "request.json"
    assert run("submit", jobs / "spot.yaml", "--dry_run", "--name", "mine", "--json", written) == 0
    out, err = capsys.readouterr()
    request = json.loads(out)
    assert request["TrainingJobName"] == "mine"
    assert request["Environment"] == {"TFHET_SECRET": "(a fresh one, made when the job is sent)"}
    assert json.loads(written.read_text()) == request
    assert "several groups and spot: SageMaker decides" in err


def test_without_boto3_it_says_what_to_install(jobs, monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(UsageError, match="boto3"):
        run("submit", jobs / "spot.yaml")


@pytest.mark.parametrize(
    ("argument", "said"), [("lease_s: -1", "--lease_s must be positive"), ("job-seed: x", "job_seed must be")]
)
def test_an_argument_that_the_launcher_would_refuse_is_refused_with_its_line(jobs, tmp_path, argument, said):
    (tmp_path / "job.yaml").write_text((jobs / "one-rank.yaml").read_text() + f"hyperparameters: {{{argument}}}\n")
    (tmp_path / "code").symlink_to(jobs / "code")
    name = argument.partition(":")[0]
    with pytest.raises(UsageError, match=rf":11: hyperparameters: {name} must be what the launcher takes: .*{said}"):
        run("submit", tmp_path / "job.yaml", "--dry_run")


def test_types_of_the_users_own_are_known(jobs, tmp_path, capsys):
    (tmp_path / "job.yaml").write_text((jobs / "one-rank.yaml").read_text().replace("ml.g5.xlarge", "ml.new.xlarge"))
    (tmp_path / "code").symlink_to(jobs / "code")
    with pytest.raises(UsageError, match=r"instances: type must be an instance type .*ml\.new\.xlarge"):
        run("submit", tmp_path / "job.yaml", "--dry_run")
    (tmp_path / "types.yaml").write_text("instances: {ml.new.xlarge: {vcpus: 8, memory_gib: 32}}")
    assert run("submit", tmp_path / "job.yaml", "--dry_run", "--instances", tmp_path / "types.yaml") == 0
    assert json.loads(capsys.readouterr().out)["ResourceConfig"]["InstanceType"] == "ml.new.xlarge"


def test_a_plan_is_written_into_the_job_file_that_is_named(tmp_path, monkeypatch, capsys):
    shown = argparse.Namespace(chosen=0)
    monkeypatch.setattr(plan_command, "show", lambda args: shown)
    monkeypatch.setattr(planned, "write_plan", lambda path, plan: path if plan is shown else None)
    needed = ["--profile", "p.json", "--cluster", "ml.g5.xlarge", "--accelerator_ms", "50"]
    assert run("plan", *needed) == 0
    assert capsys.readouterr().out == ""
    assert run("plan", *needed, "--write", tmp_path / "job.yaml") == 0
    assert capsys.readouterr().out == f"job file: {tmp_path / 'job.yaml'}\n"


def test_the_example_of_the_guide_is_a_job_file(repository):
    example = (repository / "docs" / "submit.md").read_text().split("```yaml job\n", 1)[1].split("```")[0]
    assert job_file.parse(example, "JOB.yaml").name == "digits"
