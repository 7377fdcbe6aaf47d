"""Requests to SageMaker, of each job file in jobs/, beside the golden requests in tests/golden/requests.

To write them anew after a change that is meant: TFHET_WRITE_GOLDEN=1 pytest tests/unit/submit/test_request.py
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tfhet.control import SECRET_VARIABLE
from tfhet.submit import DEFINITIONS, create_request, read
from tfhet.submit.request import REDACTED

GOLDEN = Path(__file__).parents[2] / "golden" / "requests"
ARCHIVE = "s3://my-bucket/jobs/code/0123456789abcdef/sourcedir.tar.gz"
SECRET = "s" + "5ec7e7" * 8


@pytest.fixture(scope="module")
def shape() -> Any:
    """SageMaker's model of the request, as botocore has it."""
    session = pytest.importorskip("botocore.session").get_session()
    return session.get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape


@pytest.fixture(scope="module")
def client() -> Any:
    boto3 = pytest.importorskip("boto3")
    return boto3.client("sagemaker", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def request_of(file: Path, secret: str = SECRET) -> dict[str, Any]:
    job = read(file)
    return create_request(job, f"{job.name}-20261121-210000", ARCHIVE, secret)


def test_the_request_of_a_job_file_is_the_one_that_was_looked_at(job_file):
    request = request_of(job_file, REDACTED)
    assert request["AlgorithmSpecification"].pop("MetricDefinitions")  # see below
    golden = GOLDEN / f"{job_file.stem}.json"
    if os.environ.get("TFHET_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True, parents=True)
        golden.write_text(json.dumps(request, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert request == json.loads(golden.read_text(encoding="utf-8"))


def test_there_is_a_job_file_for_each_golden_request(jobs):
    names = sorted(file.stem for file in jobs.glob("*.yaml"))
    assert sorted(file.stem for file in GOLDEN.glob("*.json")) == names
    assert len(names) >= 12


def test_botocore_takes_the_request(job_file, client):
    from botocore.stub import Stubber

    with Stubber(client) as stub:
        request = request_of(job_file)
        stub.add_response("create_training_job", {"TrainingJobArn": "arn:aws:sagemaker:" + "x" * 20}, request)
        client.create_training_job(**request)
        stub.assert_no_pending_responses()


def breaches(shape: Any, value: Any, where: str) -> list[str]:
    """A request's violations of the limits of SageMaker's model, which botocore has and does not check."""
    found = []
    limits = shape.metadata
    size = value if isinstance(value, (int, float)) else len(value)
    if not limits.get("min", size) <= size <= limits.get("max", size):
        found.append(f"{where}: {size} is not from {limits.get('min')} to {limits.get('max')}")
    if "enum" in limits and value not in limits["enum"]:
        found.append(f"{where}: {value}")
    if "pattern" in limits and "\\p{" not in limits["pattern"] and not re.fullmatch(limits["pattern"], value):
        found.append(f"{where}: {value} is not {limits['pattern']}")
    if shape.type_name == "structure":
        for name, part in value.items():
            found += breaches(shape.members[name], part, f"{where}: {name}")
    elif shape.type_name == "list":
        for part in value:
            found += breaches(shape.member, part, where)
    elif shape.type_name == "map":
        for name, part in value.items():
            found += breaches(shape.key, name, where) + breaches(shape.value, part, f"{where}: {name}")
    return found


def test_the_request_keeps_the_limits_that_botocore_knows_and_does_not_check(job_file, shape):
    assert breaches(shape, request_of(job_file), "request") == []


def test_the_limits_are_seen_to_be_broken(shape):
    wrong = {
        "TrainingJobName": "-",
        "ResourceConfig": {"InstanceType": "ml.nope", "InstanceGroups": [{}] * 6},
        "HyperParameters": {"x": "1" * 2501},
    }
    assert len(breaches(shape, wrong, "request")) == 4


def test_the_secret_is_in_the_environment_and_nowhere_else(job_file):
    request = request_of(job_file)
    assert request["Environment"].pop(SECRET_VARIABLE) == SECRET
    assert SECRET not in json.dumps(request)


def test_the_metric_definitions_are_those_of_the_log_line(jobs):
    told = request_of(jobs / "spot.yaml")["AlgorithmSpecification"]["MetricDefinitions"]
    assert told == [{"Name": each.name, "Regex": each.regex} for each in DEFINITIONS]


def test_checkpoints_of_spot_hosts_lie_below_the_job_so_that_a_retry_goes_on_and_another_job_does_not(jobs):
    file = jobs / "spot.yaml"
    first = create_request(read(file), "first", ARCHIVE, SECRET)["CheckpointConfig"]
    assert first == {"S3Uri": "s3://my-bucket/jobs/first/checkpoints", "LocalPath": "/opt/ml/checkpoints"}
    assert create_request(read(file), "second", ARCHIVE, SECRET)["CheckpointConfig"] != first


def test_checkpoints_that_the_file_names_are_those_of_every_job_of_it(jobs):
    uris = {
        create_request(read(jobs / "spot-going-on.yaml"), name, ARCHIVE, SECRET)["CheckpointConfig"]["S3Uri"]
        for name in ("first", "second")
    }
    assert uris == {"s3://my-bucket/checkpoints/digits"}
