"""One training job made of a job file: named, packed, checked, sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.control import new_secret
from tfhet.errors import TfhetError, UsageError
from tfhet.submit import rules, values
from tfhet.submit.archive import Archive
from tfhet.submit.aws import Patient
from tfhet.submit.job import Job
from tfhet.submit.request import REDACTED, create_request, redacted


@dataclass(frozen=True)
class JobSubmission:
    """A training job that can be sent. Its repr does not show the secret."""

    job: Job
    name: str
    """Name of the training job."""
    archive: Archive = field(repr=False)
    secret: str = field(repr=False)
    clock: Clock = field(default=SYSTEM, repr=False)

    @classmethod
    def of(cls, job: Job, name: str | None = None, clock: Clock = SYSTEM) -> JobSubmission:
        """With a fresh secret, and where none is given a name of the job's and the time (UTC).

        Raises UsageError for a name that SageMaker would refuse, and for code that cannot be packed or would not start.
        """
        if name is None:
            name = f"{job.name}-{datetime.fromtimestamp(clock.wall(), timezone.utc):%Y%m%d-%H%M%S}"
        if not values.SAGEMAKER_NAME.fullmatch(name) or len(name) > values.JOB_NAME_CHARACTERS:
            raise UsageError(
                f"--name {name}: a training job's name is letters and digits, with '-' between them, at most "
                f"{values.JOB_NAME_CHARACTERS}"
            )
        rules.check_code(job)
        return cls(job, name, Archive.of(job.code), new_secret(), clock)

    @property
    def request(self) -> dict[str, Any]:
        """The request that is sent, with the secret."""
        return create_request(self.job, self.name, self.archive.uri, self.secret)

    @property
    def shown(self) -> dict[str, Any]:
        """The request that may be shown, without the secret."""
        return redacted(self.request)

    def send(self, sagemaker: Any, s3: Any) -> str:
        """Stores the code, creates the training job, and gives its ARN. sagemaker, s3: boto3's clients.

        Raises as `Patient` does, and never with the secret in the message.
        """
        patient = Patient(self.clock)
        try:
            patient(s3.put_object, Bucket=self.archive.bucket, Key=self.archive.key, Body=self.archive.content)
            return str(patient(sagemaker.create_training_job, **self.request)["TrainingJobArn"])
        except TfhetError as error:
            if self.secret in str(error):
                raise TfhetError(str(error).replace(self.secret, REDACTED)) from None
            raise
