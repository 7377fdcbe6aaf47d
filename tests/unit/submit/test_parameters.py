"""The hyperparameters of a request as SageMaker's toolkit reads them, beside the words that the simulator gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfhet.submit import read
from tfhet.submit.request import MOST, MOST_GIVEN, hyperparameters
from tfhet.submit.values import PIPELINE


def test_the_toolkit_makes_the_same_words_of_them(job_file):
    mapping = pytest.importorskip("sagemaker_training.mapping", reason="needs sagemaker-training: pip install it")
    job = read(job_file)
    told = {name: json.loads(value) for name, value in hyperparameters(job, "mine", "s3://a/b").items()}
    own = mapping.split_by_criteria(told, prefix="sagemaker").excluded
    assert mapping.to_cmd_args(own) == job.arguments


def test_with_all_that_is_added_there_are_no_more_than_sagemaker_takes(job_file):
    job = read(job_file)
    added = len(hyperparameters(job, "mine", "s3://a/b")) - len(job.hyperparameters) - len(job.pipeline)
    assert MOST_GIVEN + added <= MOST


def test_each_option_of_the_pipeline_is_an_argument_of_the_launcher_or_the_trainer(repository: Path):
    from tfhet.launch import LaunchSettings
    from tfhet.planes.tf_service import ServiceSettings

    settings = (repository / "tfhet" / "trainer" / "settings.py").read_text()  # importing it would load TensorFlow
    known = {*LaunchSettings.__dataclass_fields__, *ServiceSettings.__dataclass_fields__}
    for name in PIPELINE:
        assert name in known or f"    {name}: " in settings, name
