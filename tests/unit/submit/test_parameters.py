"""Hyperparameters as SageMaker's toolkit reads them equal the arguments in a simulation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfhet.submit import parse, read
from tfhet.submit.job import Job, PipelineArguments
from tfhet.submit.request import MOST, MOST_GIVEN, hyperparameters


def test_toolkit_makes_the_same_arguments(job_file):
    mapping = pytest.importorskip("sagemaker_training.mapping", reason="needs sagemaker-training: pip install it")
    job = read(job_file)
    told = {name: json.loads(value) for name, value in hyperparameters(job, "mine", "s3://a/b").items()}
    own = mapping.split_by_criteria(told, prefix="sagemaker").excluded
    assert mapping.to_cmd_args(own) == job.arguments


def test_added_hyperparameters_fit_sagemakers_limit(job_file):
    job = read(job_file)
    added = len(hyperparameters(job, "mine", "s3://a/b")) - len(job.hyperparameters) - len(job.pipeline)
    assert MOST_GIVEN + added <= MOST


def test_pipeline_options_are_known_arguments(repository: Path):
    from tfhet.launch import LaunchSettings
    from tfhet.planes.tf_service import ServiceSettings

    settings = (repository / "tfhet" / "trainer" / "settings.py").read_text()  # importing it would load TensorFlow
    known = {*LaunchSettings.__dataclass_fields__, *ServiceSettings.__dataclass_fields__}
    for name in vars(PipelineArguments()):
        assert name in known or f"    {name}: " in settings, name


def job_of(strategy: str, count: int) -> Job:
    text = "name: a\nimage: 1.dkr/tfhet\nrole: arn:aws:iam::123456789012:role/training\noutput: s3://my-bucket/b\n"
    text += "code: {directory: ., script: launcher.py}\nlimits: {max_run_s: 60}\n"
    text += f"hyperparameters: {{strategy: {strategy}}}\ninstances: {{type: ml.p4d.24xlarge, count: {count}}}\n"
    return parse(text, "job.yaml")


@pytest.mark.parametrize(("strategy", "ranks", "start"), [("auto", 8, "mpi"), ("mirrored", 1, "alone")])
def test_ranks_follow_gpus_and_strategy(strategy, ranks, start):
    job = job_of(strategy, 1)
    assert (job.dnn.ranks, job.start) == (ranks, start)


@pytest.mark.parametrize(("strategy", "ranks", "start"), [("torch", 24, "mpi"), ("ray", 1, "alone")])
def test_ranks_of_several_hosts(strategy, ranks, start):
    job = job_of(strategy, 3)
    assert (job.ranks, job.start, job.dnn.count) == (ranks, start, 3)
