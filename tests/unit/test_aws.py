"""aws.py: temporary errors are retried, others raised at once."""

from __future__ import annotations

from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")

import botocore.exceptions as wrong  # noqa: E402
from fake_clock import FakeClock  # noqa: E402

from tfhet.aws import PATIENCE_S, AwsRefused, Patient, client  # noqa: E402
from tfhet.errors import NotReady, UsageError  # noqa: E402


class Call:
    """Raises some errors, one after the other, then returns its request."""

    def __init__(self, *errors: Exception):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, **request: Any) -> Any:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return request


def refused(code: str, status: int = 400) -> wrong.ClientError:
    told = {"Error": {"Code": code, "Message": "so it is"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return wrong.ClientError(told, "DescribeTrainingJob")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [
        refused("ThrottlingException"),
        refused("TooManyRequestsException"),
        refused("Whatever", 503),
        refused("SlowDown", 429),
        wrong.EndpointConnectionError(endpoint_url="https://aws"),
        wrong.ReadTimeoutError(endpoint_url="https://aws"),
    ],
)
def test_temporary_errors_are_retried(error: Exception) -> None:
    clock, call = FakeClock(), Call(error, error, error)
    assert Patient(clock)(call, Name="x") == {"Name": "x"}
    assert clock.monotonic() == 1 + 2 + 4


def test_retries_have_a_deadline() -> None:
    clock, call = FakeClock(), Call(*[refused("ThrottlingException")] * 1000)
    with pytest.raises(NotReady, match="ThrottlingException"):
        Patient(clock)(call)
    assert clock.monotonic() <= PATIENCE_S and call.calls < 20


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (refused("AccessDeniedException"), UsageError, "DescribeTrainingJob"),
        (refused("ExpiredTokenException"), UsageError, "renew"),
        (refused("UnrecognizedClientException"), UsageError, "renew"),
        (refused("InvalidSignatureException"), UsageError, "renew"),
        (wrong.NoCredentialsError(), UsageError, "aws configure"),
        (wrong.ProfileNotFound(profile="me"), UsageError, "AWS_PROFILE"),
        (wrong.ParamValidationError(report="no name"), UsageError, "no name"),
        (refused("ValidationException"), AwsRefused, "so it is"),
    ],
)
def test_lasting_errors_are_raised_at_once(error: Exception, kind: type[Exception], words: str) -> None:
    clock, call = FakeClock(), Call(error)
    with pytest.raises(kind, match=words) as raised:
        Patient(clock)(call)
    assert (call.calls, clock.monotonic()) == (1, 0.0)
    assert not isinstance(raised.value, AwsRefused) or raised.value.code == "ValidationException"


def test_client_needs_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(UsageError, match="--region"):
        client("sagemaker")
    assert client("sagemaker", "eu-west-1").meta.region_name == "eu-west-1"


def test_client_has_timeouts() -> None:
    config = client("pricing", "us-east-1").meta.config
    assert (config.connect_timeout, config.read_timeout) == (5, 30)
    assert config.retries["total_max_attempts"] == 3
