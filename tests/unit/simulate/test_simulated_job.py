from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.simulate.submission import Submission, of_job
from tfhet.submit import Job, parse

TEXT = """\
name: digits
image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:0.1
role: arn:aws:iam::123456789012:role/training
output: s3://my-bucket/jobs
code: {directory: code, script: launcher.py}
hyperparameters: {learning-rate: 1e-3, export: false}
environment: {OF_THE_JOB: "1"}
channels:
  training: {uri: "s3://my-bucket/a", local: digits/train, groups: [data_group, dnn_group], mode: FastFile}
  validation: {uri: "s3://my-bucket/b", local: here, groups: [dnn_group]}
  more: {uri: "s3://my-bucket/c", groups: [dnn_group]}
groups:
  data_group: {type: ml.c5.xlarge, count: 2}
  dnn_group: {type: ml.p3.8xlarge, count: 1}
limits: {max_run_s: 600}
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "launcher.py").write_text("")
    return parse(TEXT, str(tmp_path / "job.yaml"))


def test_a_job_is_a_cluster_with_its_channels_on_this_machine(job, tmp_path):
    cluster, _, _ = of_job(job)
    assert {name: (group.hosts, group.ranks, group.instance_type) for name, group in cluster.groups.items()} == {
        "data_group": (2, 1, "ml.c5.xlarge"),
        "dnn_group": (1, 4, "ml.p3.8xlarge"),
    }
    assert cluster.channels == {
        "training": "digits/train",
        "validation": str(tmp_path / "here"),
        "more": "s3://my-bucket/c",
    }


def test_it_is_submitted_with_its_variables_modes_and_groups_of_channels(job):
    cluster, command, options = of_job(job)
    made = Submission.of(cluster, command, **options)
    assert made.command == ["launcher.py", "--export", "False", "--learning-rate", "1e-3"]
    assert made.environment == {"OF_THE_JOB": "1"}
    assert [made.mode(name) for name in ("training", "validation")] == ["FastFile", "File"]
    assert list(made.seen_by("data_group", cluster.channels)) == ["training"]
    assert list(made.seen_by("dnn_group", cluster.channels)) == ["training", "validation", "more"]
    assert made.dnn_group == "dnn_group"


def test_what_is_said_behind_it_wins_over_its_hyperparameters(job):
    cluster, command, options = of_job(job, ["--export", "True"])
    made = Submission.of(cluster, command, **options)
    assert made.command[-2:] == ["--export", "True"]
    assert made.parameters is not None
    assert {name: json.loads(value) for name, value in made.parameters.items()} == {
        "learning-rate": "1e-3",
        "export": "True",
    }


def test_a_job_whose_launchers_start_the_ranks_does_so_here(tmp_path, job):
    alone = parse(TEXT + "start: alone\n", str(tmp_path / "job.yaml"))
    cluster, command, options = of_job(alone)
    assert Submission.of(cluster, command, **options).start == "alone"


def test_a_pipe_is_refused_with_its_line(tmp_path, job):
    with pytest.raises(UsageError, match=r"job\.yaml:9: channels: training: mode must be File or FastFile"):
        of_job(parse(TEXT.replace("FastFile", "Pipe"), str(tmp_path / "job.yaml")))
