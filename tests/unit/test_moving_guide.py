"""The guide for those who come from AWS's example maps to things that exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.launch import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings
from tfhet.submit import create_request, parse

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "moving-from-the-aws-example.md").read_text()


def right_column(heading: str) -> str:
    """The right column of a section's table, as one text."""
    section = re.search(rf"^## {heading}\n(.*?)^## ", GUIDE, flags=re.MULTILINE | re.DOTALL)[1]
    return "\n".join(line.split("|")[2] for line in section.splitlines() if line.startswith("|"))


def test_arguments_go_to_arguments_that_the_launcher_or_the_trainer_has():
    known = {item.name for item in (*fields(LaunchSettings), *fields(ServiceSettings))} | {"data"}  # of the trainer
    told = re.findall(r"`--(\w+)", right_column("Arguments"))
    assert len(told) > 8 and [name for name in told if name not in known] == []


@pytest.mark.parametrize("field", sorted(set(re.findall(r"`(\w+): [\w{]", right_column("The job")))))
def test_what_the_estimator_is_told_goes_to_fields_that_a_job_file_has(field):
    with pytest.raises(UsageError, match=rf"the name 'another' must be one of .*\b{field}\b"):
        parse("another: 1\n", "job.yaml")


def test_the_job_file_makes_the_request_for_the_cluster_of_the_example():
    job = parse(re.search(r"```yaml job\n(.*?)```", GUIDE, flags=re.DOTALL)[1], "job.yaml")
    request = create_request(job, "heterogeneous-1", "s3://my-bucket/jobs/code/sourcedir.tar.gz", "secret")
    groups = [tuple(group.values()) for group in request["ResourceConfig"]["InstanceGroups"]]
    assert groups == [("data_group", "ml.c5.18xlarge", 2), ("dnn_group", "ml.p4d.24xlarge", 1)]
    told = request["HyperParameters"]
    assert told["sagemaker_mpi_num_of_processes_per_host"] == "8"
    assert told["sagemaker_distribution_instance_groups"] == '["dnn_group"]'
    assert (told["epochs"], told["steps_per_epoch"], told["batch_size"]) == ("10", "500", "1024")
    assert (told["data_host_workers"], told["dnn_host_workers"]) == ("1", "1")  # one worker a host, on all hosts
