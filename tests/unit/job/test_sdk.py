"""The scripts for the SageMaker Python SDK; where a version of the SDK is installed, what it would send."""

from __future__ import annotations

import collections
import contextlib
import importlib.metadata
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tfhet.control import SECRET_VARIABLE
from tfhet.errors import UsageError
from tfhet.job import create_request, read, script
from tfhet.job.python_code import Code, call, written


def installed() -> int:
    """The major version of the SDK here; 0 without it. Version 3 comes in parts."""
    for package, version in (("sagemaker-train", 3), ("sagemaker", 2)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(package)
            return version
    return 0


def test_the_sdk_is_there_where_it_should_be():
    assert os.environ.get("TFHET_TEST_SDK", f"v{installed()}") == f"v{installed()}"


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_the_script_is_python_and_holds_no_secret(job_file, version):
    text = script(read(job_file), version)
    compile(text, job_file.name, "exec")
    assert "secrets.token_hex(32)" in text
    assert not re.search(r"[0-9a-f]{32}", text)


def test_an_unknown_version_names_those_that_are_known(jobs):
    with pytest.raises(UsageError, match="known: v2, v3"):
        script(read(jobs / "spot.yaml"), "v1")


def test_values_are_written_as_python_reads_them():
    value = {"a": [1, 2.5, True, None, "it's"], "b": {"c" * 50: ["d" * 50]}, "e": []}
    assert eval(written(value)) == value
    assert call("f", 1, b="c") == "f(1, b='c')"
    assert written([Code("x"), "x"]) == "[x, 'x']"


class Sent(BaseException):
    """Ends a script when it has sent its request."""


def sent(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a script would send: every call of AWS is caught here."""
    from botocore.client import BaseClient

    requests: list[dict[str, Any]] = []

    def answer(client: Any, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if operation == "CreateTrainingJob":
            requests.append(arguments)
            raise Sent
        answers: dict[str, dict[str, Any]] = {
            "GetCallerIdentity": {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/x"},
            "GetRole": {"Role": {"Arn": "arn:aws:iam::123456789012:role/training"}},
            "SimulatePrincipalPolicy": {"EvaluationResults": [{"EvalDecision": "allowed"}]},
        }
        return collections.defaultdict(dict, answers.get(operation, {}))

    monkeypatch.setattr(BaseClient, "_make_api_call", answer)
    monkeypatch.setenv("HOME", str(folder))
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with contextlib.suppress(Sent):  # or the SDK does
        exec(compile(text, "script", "exec"), {})
    return requests[0]


def same_for_all(request: dict[str, Any]) -> dict[str, Any]:
    """A request without what each has of its own: names, places of the code, and what the SDK adds by itself."""
    own = ("TrainingJobName", "HyperParameters", "Environment", "CheckpointConfig", "ProfilerConfig", "InputDataConfig")
    rest = {name: value for name, value in request.items() if name not in (*own, "EnableNetworkIsolation")}
    rest["AlgorithmSpecification"] = {
        name: value
        for name, value in rest["AlgorithmSpecification"].items()
        if name in ("TrainingImage", "MetricDefinitions")
    }
    rest["OutputDataConfig"] = {"S3OutputPath": rest["OutputDataConfig"]["S3OutputPath"]}  # GZIP is what is usual
    rest["Tags"] = [tag for tag in rest.get("Tags", []) if not tag["Key"].startswith("sagemaker:")]
    return {name: value for name, value in rest.items() if value}


@pytest.mark.skipif(installed() != 2, reason="needs version 2 of the SageMaker SDK: scripts/test --sdk")
def test_version_2_sends_what_tfhet_submit_sends(job_file, tmp_path, monkeypatch):
    job = read(job_file)
    request = sent(script(job, "v2"), tmp_path, monkeypatch)
    ours = create_request(job, request["TrainingJobName"], "s3://x/y", "s" * 20)
    assert same_for_all(request) == same_for_all(ours)
    assert request.get("CheckpointConfig") == ours.get("CheckpointConfig")
    assert request.get("InputDataConfig", []) == ours.get("InputDataConfig", [])
    assert {**request["Environment"], SECRET_VARIABLE: "s" * 20} == ours["Environment"]
    told, wanted = request["HyperParameters"], ours["HyperParameters"]
    assert re.fullmatch(r'"s3://my-bucket/.*/sourcedir.tar.gz"', told.pop("sagemaker_submit_directory"))
    wanted.pop("sagemaker_submit_directory")
    assert told == wanted


@pytest.mark.skipif(installed() != 3, reason="needs version 3 of the SageMaker SDK: scripts/test --sdk")
def test_version_3_sends_the_same_cluster_channels_and_hyperparameters(job_file, tmp_path, monkeypatch):
    job = read(job_file)
    request = sent(script(job, "v3"), tmp_path, monkeypatch)
    ours = create_request(job, request["TrainingJobName"], "s3://x/y", "s" * 20)
    if groups := ours["ResourceConfig"].get("InstanceGroups"):  # it cannot say that a group has no hosts
        ours["ResourceConfig"]["InstanceGroups"] = [group for group in groups if group["InstanceCount"]]
    assert same_for_all(request) == same_for_all(ours)
    own = [
        channel
        for channel in request.get("InputDataConfig", [])
        if channel["ChannelName"] not in ("code", "sm_drivers")
    ]
    assert own == ours.get("InputDataConfig", [])
    parameters = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in job.parameters.items()
    }
    assert request["HyperParameters"] == {**parameters, "processes_per_host": str(job.dnn.ranks)}
    assert {**request["Environment"], SECRET_VARIABLE: "s" * 20} == ours["Environment"]
