"""submit/request.py: the request of each job file in jobs/ equals its golden request in tests/golden/requests.

`TFHET_WRITE_GOLDEN=1 pytest tests/unit/submit/test_request.py` writes the golden requests after an intended change.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tfhet.control import SECRET_VARIABLE
from tfhet.messages import MetricLine
from tfhet.submit import DEFINITIONS, create_request, read
from tfhet.submit.request import REDACTED

GOLDEN = Path(__file__).parents[2] / "golden" / "requests"
ARCHIVE = "s3://my-bucket/jobs/code/0123456789abcdef/sourcedir.tar.gz"
SECRET = "s" + "5ec7e7" * 8


@pytest.fixture(scope="module")
def shapes() -> dict[str, Any]:
    """SageMaker's models of the requests, as botocore has them."""
    session = pytest.importorskip("botocore.session").get_session()
    model = session.get_service_model("sagemaker")
    names = "CreateTrainingJob", "CreateHyperParameterTuningJob"
    return {name: model.operation_model(name).input_shape for name in names}


@pytest.fixture(scope="module")
def client() -> Any:
    boto3 = pytest.importorskip("boto3")
    return boto3.client("sagemaker", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def request_of(file: Path, secret: str = SECRET) -> dict[str, Any]:
    job = read(file)
    return create_request(job, f"{job.name}-20261121-210000", ARCHIVE, secret)


def training_of(request: dict[str, Any]) -> dict[str, Any]:
    """The part of a request that describes a training job."""
    return request.get("TrainingJobDefinition", request)


def test_request_equals_the_golden_request(job_file):
    request = request_of(job_file, REDACTED)
    assert training_of(request)["AlgorithmSpecification"].pop("MetricDefinitions")  # see below
    golden = GOLDEN / f"{job_file.stem}.json"
    if os.environ.get("TFHET_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True, parents=True)
        golden.write_text(json.dumps(request, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert request == json.loads(golden.read_text(encoding="utf-8"))


def test_golden_requests_have_job_files(jobs):
    names = sorted(file.stem for file in jobs.glob("*.yaml"))
    assert sorted(file.stem for file in GOLDEN.glob("*.json")) == names
    assert len(names) >= 12


def test_botocore_accepts_the_request(job_file, client):
    from botocore.stub import Stubber

    with Stubber(client) as stub:
        request, arn = request_of(job_file), "arn:aws:sagemaker:" + "x" * 20
        if "TrainingJobDefinition" in request:
            stub.add_response("create_hyper_parameter_tuning_job", {"HyperParameterTuningJobArn": arn}, request)
            client.create_hyper_parameter_tuning_job(**request)
        else:
            stub.add_response("create_training_job", {"TrainingJobArn": arn}, request)
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


def test_request_keeps_sagemakers_limits(job_file, shapes):
    request = request_of(job_file)
    shape = shapes["CreateHyperParameterTuningJob" if "TrainingJobDefinition" in request else "CreateTrainingJob"]
    assert breaches(shape, request, "request") == []


def test_tuning_jobs_may_have_instance_groups(shapes):
    """The service model on which `tuning` with groups rests: docs/submit.md."""
    definition = shapes["CreateHyperParameterTuningJob"].members["TrainingJobDefinition"]
    resources = definition.members["ResourceConfig"]
    assert resources.name == shapes["CreateTrainingJob"].members["ResourceConfig"].name
    assert "InstanceGroups" in resources.members
    assert "InstanceGroups" not in definition.members["HyperParameterTuningResourceConfig"].members
    assert "ProfilerConfig" not in definition.members


def test_broken_limits_are_found(shapes):
    shape = shapes["CreateTrainingJob"]
    wrong = {
        "TrainingJobName": "-",
        "ResourceConfig": {"InstanceType": "ml.nope", "InstanceGroups": [{}] * 6},
        "HyperParameters": {"x": "1" * 2501},
    }
    assert len(breaches(shape, wrong, "request")) == 4


def test_secret_is_in_the_environment_only(job_file):
    request = request_of(job_file)
    assert training_of(request)["Environment"].pop(SECRET_VARIABLE) == SECRET
    assert SECRET not in json.dumps(request)


def test_checkpoints_of_spot_jobs(jobs):
    """Below the job, so that only its retries continue, unless the file names a place."""
    places = [
        create_request(read(jobs / file), name, ARCHIVE, SECRET)["CheckpointConfig"]["S3Uri"]
        for file in ("spot.yaml", "spot-going-on.yaml")
        for name in ("first", "second")
    ]
    own = [f"s3://my-bucket/jobs/{name}/checkpoints" for name in ("first", "second")]
    assert places == [*own, "s3://my-bucket/checkpoints/digits", "s3://my-bucket/checkpoints/digits"]


END = (
    "[tfhet] end of epoch=2 steps=9 examples=1152 loss=1.5646 accuracy=0.4531 expected=1152 seen=1150 missing=2"
    " repeated=0 val_loss=1.3551 val_accuracy=0.7833"
)
BY_NAME = {definition.name: definition for definition in DEFINITIONS}
WHOLE = st.integers(0, 10**15)
NUMBER = st.floats(0, 1e12)
LINES = st.builds(
    MetricLine, WHOLE, WHOLE, NUMBER, NUMBER, st.floats(0, 100), st.none() | st.floats(-1e12, 1e12) | st.just(math.nan)
)


def found(line: str) -> dict[str, float]:
    """The values that the metric definitions find in a line, as SageMaker does."""
    hits = {name: re.search(definition.regex, line) for name, definition in BY_NAME.items()}
    return {name: float(hit.group(1)) for name, hit in hits.items() if hit is not None}


@given(LINES, st.sampled_from(["", "[algo-2/0] ", "[1,mpirank:0,algo-2]<stdout>:[algo-2/0] "]))
def test_metric_definitions_find_all_numbers(line, prefix):
    printed = MetricLine.parse(str(line))
    assert printed is not None and set(printed.numbers()) <= set(BY_NAME)
    finite = {name: value for name, value in printed.numbers().items() if math.isfinite(value)}
    assert found(f"{prefix}{line}") == finite


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        (END, {"accuracy": 0.4531, "val_loss": 1.3551, "val_accuracy": 0.7833, "examples_missing": 2.0}),
        ("[tfhet] stopped at step=20, as told; the next run goes on from /opt/ml/checkpoints", {}),
        ("[tfhet] resumed at epoch=1 step=20, 3 steps into it", {}),
        ("[tfhet] step_parts wait_ms=1.00 copy_ms=0.10 compute_ms=80.00", {}),
        ("[tfhet] rank=0 batches=34 weights=c6eabc67", {}),
        ("step=1 epoch=0 loss=2.0", {}),
    ],
)
def test_other_lines_hold_no_step_metrics(line, numbers):
    assert found(line) == numbers


def test_metric_definitions_keep_sagemakers_limits(jobs):
    request = request_of(jobs / "spot.yaml")["AlgorithmSpecification"]["MetricDefinitions"]
    assert request == [{"Name": each.name, "Regex": each.regex} for each in DEFINITIONS]
    assert len(request) <= 40 and len({each["Name"] for each in request}) == len(request)
    for each in request:
        assert 1 <= len(each["Name"]) <= 255 and 1 <= len(each["Regex"]) <= 500
        assert re.compile(each["Regex"]).groups == 1


def test_tuning_jobs_find_their_objective(jobs):
    for file, line in (("tuning.yaml", END), ("tuning-grid.yaml", "epoch 3: f1=0.7833")):
        request = request_of(jobs / file)
        wanted = request["HyperParameterTuningJobConfig"]["HyperParameterTuningJobObjective"]["MetricName"]
        known = request["TrainingJobDefinition"]["AlgorithmSpecification"]["MetricDefinitions"]
        (regex,) = [each["Regex"] for each in known if each["Name"] == wanted]
        assert re.findall(regex, line) == ["0.7833"]


def test_categories_are_json_as_other_hyperparameters(jobs):
    ranges = request_of(jobs / "tuning.yaml")["HyperParameterTuningJobConfig"]["ParameterRanges"]
    values = {each["Name"]: each["Values"] for each in ranges["CategoricalParameterRanges"]}
    assert values == {"optimizer": ['"adam"', '"sgd"'], "nesterov": ["true", "false"]}


@pytest.mark.parametrize("name", ["loss", "examples_per_s", "step_ms"])
@pytest.mark.parametrize("value", [0.0, 3.4e-5, 7e-5, 0.00123, 0.04, 0.4, 9.99, 12.34, 1e7])
def test_metrics_are_seen_within_a_percent(name, value):
    values = {"step": 1, "epoch": 0, "step_ms": 1.0, "examples_per_s": 10.0, "wait_pct": 1.0, "loss": 1.0}
    (seen,) = re.findall(BY_NAME[name].regex, str(MetricLine(**{**values, name: value})))
    assert float(seen) == pytest.approx(value, rel=0.01)
