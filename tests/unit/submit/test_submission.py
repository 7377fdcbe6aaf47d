from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from fake_clock import FakeClock

from tfhet.control import SECRET_VARIABLE
from tfhet.errors import TfhetError, UsageError
from tfhet.submit import JobSubmission, read

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits"


@pytest.fixture
def submission(jobs: Path) -> JobSubmission:
    return JobSubmission.of(read(jobs / "heterogeneous.yaml"), clock=FakeClock())


class Service:
    """One of AWS's, that notes what it is asked, and answers or raises."""

    def __init__(self, answer: Any = None):
        self.asked: list[dict[str, Any]] = []
        self.answer = answer

    def create_training_job(self, **request: Any) -> dict[str, str]:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"TrainingJobArn": ARN}

    put_object = create_training_job


def test_the_code_is_stored_where_the_request_says_before_the_job_is_created(submission):
    s3, sagemaker = Service(), Service()
    assert submission.send(sagemaker, s3) == ARN
    (stored,), (request,) = s3.asked, sagemaker.asked
    uri = f"s3://{stored['Bucket']}/{stored['Key']}"
    assert request["HyperParameters"]["sagemaker_submit_directory"] == f'"{uri}"'
    with tarfile.open(fileobj=io.BytesIO(stored["Body"])) as packed:
        assert packed.getnames() == ["launcher.py", "train.py"]


def test_each_submission_has_a_name_of_its_job_and_the_time_and_a_secret_of_its_own(jobs):
    job = read(jobs / "spot.yaml")
    first, second = JobSubmission.of(job, clock=FakeClock()), JobSubmission.of(job, "mine", clock=FakeClock())
    assert first.name.startswith("spot-19700101-0")
    assert second.name == second.request["TrainingJobName"] == "mine"
    secrets = [one.request["Environment"][SECRET_VARIABLE] for one in (first, second)]
    assert secrets == [first.secret, second.secret]
    assert len(set(secrets)) == 2 and min(map(len, secrets)) > 60


def test_nothing_that_is_shown_of_a_submission_holds_its_secret(submission):
    assert submission.secret not in f"{submission!r} {submission} {submission.shown}"


def test_what_aws_says_of_the_request_is_told_without_the_secret(submission):
    wrong = pytest.importorskip("botocore.exceptions")
    told = {"Error": {"Code": "ValidationException", "Message": f"no good: {submission.secret}"}}
    refusing = Service(wrong.ClientError(told, "CreateTrainingJob"))
    with pytest.raises(TfhetError, match="ValidationException: no good: ") as refused:
        submission.send(refusing, Service())
    assert submission.secret not in str(refused.value)


def test_a_job_is_not_created_when_its_code_cannot_be_stored(submission):
    wrong = pytest.importorskip("botocore.exceptions")
    sagemaker = Service()
    with pytest.raises(UsageError, match="Unable to locate credentials"):
        submission.send(sagemaker, Service(wrong.NoCredentialsError()))
    assert sagemaker.asked == []
