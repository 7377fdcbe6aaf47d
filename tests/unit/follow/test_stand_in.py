"""A training job from its creation to its stop, by moto, which stands in for AWS."""

from __future__ import annotations

import datetime
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

moto = pytest.importorskip("moto", reason="needs moto: pip install 'moto>=5'")
boto3 = pytest.importorskip("boto3")

from fake_clock import FakeClock  # noqa: E402

from tfhet.aws import Patient  # noqa: E402
from tfhet.catalogue import TRAINING, Price  # noqa: E402
from tfhet.follow.following import Followed, follow  # noqa: E402
from tfhet.follow.log_streams import GROUP  # noqa: E402
from tfhet.follow.state import JobState  # noqa: E402
from tfhet.submit import JobSubmission, read  # noqa: E402

PRICE = Price(1.0, "us-east-1", TRAINING, "a test", datetime.date(2026, 1, 1))


def fill_the_gap_of_moto(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto 5.2 has no StopTrainingJob, and its jobs are completed when they are created. Here a job trains until it is
    told to stop; it is Stopping when it is looked at next, and Stopped from then on. Others cannot be stopped."""
    from moto.core.responses import EmptyResult
    from moto.sagemaker.exceptions import ValidationError
    from moto.sagemaker.models import FakeTrainingJob
    from moto.sagemaker.responses import SageMakerResponse

    assert not hasattr(SageMakerResponse, "stop_training_job"), "moto has it by now: take this one away"
    create, describe = FakeTrainingJob.__init__, SageMakerResponse.describe_training_job

    def change(job: Any, status: str, detail: str, ended: datetime.datetime | None = None) -> None:
        job.training_job_status, job.secondary_status, job.training_end_time = status, detail, ended

    def created(job: Any, *given: Any, **named: Any) -> None:
        create(job, *given, **named)
        change(job, "InProgress", "Training")

    def stop_training_job(self: Any) -> EmptyResult:
        job = self.sagemaker_backend.training_jobs.get(self._get_param("TrainingJobName"))
        if job is None or job.training_job_status != "InProgress":
            raise ValidationError("The request was rejected because the training job is not in progress.")
        change(job, "Stopping", "Stopping")
        return EmptyResult()

    def describe_training_job(self: Any) -> Any:
        answer = describe(self)
        job = self.sagemaker_backend.training_jobs[self._get_param("TrainingJobName")]
        if job.training_job_status == "Stopping":
            change(job, "Stopped", "Stopped", job.training_start_time + datetime.timedelta(minutes=2))
        return answer

    monkeypatch.setattr(FakeTrainingJob, "__init__", created)
    monkeypatch.setattr(SageMakerResponse, "stop_training_job", stop_training_job, raising=False)
    monkeypatch.setattr(SageMakerResponse, "describe_training_job", describe_training_job)


@dataclass(frozen=True)
class Cloud:
    """Clients of moto's services."""

    sagemaker: Any
    s3: Any
    logs: Any


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    fill_the_gap_of_moto(monkeypatch)
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with moto.mock_aws():
        found = Cloud(*(boto3.client(name, region_name="us-east-1") for name in ("sagemaker", "s3", "logs")))
        found.s3.create_bucket(Bucket="my-bucket")
        yield found


@pytest.fixture
def submission(repository: Path) -> JobSubmission:
    return JobSubmission.of(read(repository / "tests/unit/submit/jobs" / "heterogeneous.yaml"), clock=FakeClock())


class CtrlC(FakeClock):
    """On which Ctrl-C comes the first time that somebody sleeps."""

    came = False

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if not self.came:
            self.came = True
            raise KeyboardInterrupt


def followed(cloud: Cloud, submission: JobSubmission, folder: Path, ask: Any) -> tuple[Followed, str]:
    out, clock = io.StringIO(), CtrlC(time.time())
    found = follow(
        submission.name,
        cloud.sagemaker,
        cloud.logs,
        run_dir=folder,
        out=out,
        ask=ask,
        price_of=lambda name: PRICE,
        clock=clock,
    )
    return found, out.getvalue()


def state(cloud: Cloud, submission: JobSubmission) -> JobState:
    return JobState.ask(submission.name, cloud.sagemaker, Patient(FakeClock()))


def test_what_is_sent_is_described_and_its_code_lies_where_it_says(cloud, submission):
    arn = submission.send(cloud.sagemaker, cloud.s3)
    told = cloud.sagemaker.describe_training_job(TrainingJobName=submission.name)
    assert told["TrainingJobArn"] == arn
    assert told["HyperParameters"] == submission.request["HyperParameters"]
    stored = cloud.s3.get_object(Bucket="my-bucket", Key=submission.archive.place["Key"])["Body"].read()
    assert stored == submission.archive.content
    assert [group.name for group in state(cloud, submission).groups] == ["data_group", "dnn_group"]


def test_a_job_that_was_sent_and_followed_is_stopped_by_ctrl_c_and_described_as_stopped(cloud, submission, tmp_path):
    submission.send(cloud.sagemaker, cloud.s3)
    stream = f"{submission.name}/algo-1-1700"
    cloud.logs.create_log_group(logGroupName=GROUP)
    cloud.logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
    line = {"timestamp": round(1000 * time.time()), "message": "it trains"}
    cloud.logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=[line])
    before = state(cloud, submission)
    assert (before.status, before.secondary, before.is_over) == ("InProgress", "Training", False)

    found, out = followed(cloud, submission, tmp_path, ask=lambda question: True)

    after = state(cloud, submission)
    assert after.status == "Stopped" and after.billable_s(0.0) == 120.0
    assert found.summary.status == "Stopped" and found.exit_code == 1
    assert "algo-1 | it trains" in out and f"{submission.name} was asked to stop" in out
    assert found.folder.log_tail("algo-1", 1) == ["it trains"]


def test_a_job_that_somebody_else_stops_while_it_is_asked_about_is_followed_to_its_end(cloud, submission, tmp_path):
    submission.send(cloud.sagemaker, cloud.s3)

    def ask(question: str) -> bool:
        cloud.sagemaker.stop_training_job(TrainingJobName=submission.name)
        return True

    found, _ = followed(cloud, submission, tmp_path, ask)
    assert found.summary.status == "Stopped"
