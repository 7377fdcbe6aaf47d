"""One training job or tuning job made of a job file: named, packed, checked, sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tfhet.aws import Patient
from tfhet.clock import SYSTEM, Clock
from tfhet.control import new_secret
from tfhet.errors import TfhetError
from tfhet.schema import checked
from tfhet.submit import rules, values
from tfhet.submit.archive import Archive
from tfhet.submit.job import Job
from tfhet.submit.request import REDACTED, create_request

TUNING_NAME = 32 - 16
"""Maximum length of the job's name in the name of a tuning job: the time needs 16 characters."""


@dataclass(frozen=True)
class JobSubmission:
    """A training job or tuning job that can be sent. Its repr does not show the secret."""

    job: Job
    name: str
    archive: Archive = field(repr=False)
    secret: str = field(repr=False)
    clock: Clock = field(default=SYSTEM, repr=False)

    @classmethod
    def of(cls, job: Job, name: str | None = None, clock: Clock = SYSTEM) -> JobSubmission:
        """Makes a job with a fresh secret; its name is by default the job's name and the time (UTC). The name of a
        tuning job is cut to the length that SageMaker allows. Raises UsageError for a name that SageMaker would refuse,
        and for code that cannot be packed or would not start."""
        if name is None:
            base = job.name[:TUNING_NAME].rstrip("-") if job.tuning else job.name
            name = f"{base}-{datetime.fromtimestamp(clock.wall(), UTC):%Y%m%d-%H%M%S}"
        checked(name, values.TuningJobName if job.tuning else values.TrainingJobName, "--name")
        rules.check_code(job)
        return cls(job, name, Archive.of(job.code), new_secret(), clock)

    @property
    def request(self) -> dict[str, Any]:
        """The request that is sent, with the secret."""
        return create_request(self.job, self.name, self.archive.uri, self.secret)

    @property
    def shown(self) -> dict[str, Any]:
        """The request that may be shown, without the secret."""
        return create_request(self.job, self.name, self.archive.uri, REDACTED)

    def send(self, sagemaker: Any, s3: Any) -> str:
        """Stores the code, creates the job, and returns its ARN. sagemaker, s3: boto3's clients. Raises as
        `Patient` does, and never with the secret in the message."""
        patient = Patient(self.clock)
        try:
            patient(s3.put_object, **self.archive.place, Body=self.archive.content)
            if self.job.tuning:
                created = patient(sagemaker.create_hyper_parameter_tuning_job, **self.request)
                return str(created["HyperParameterTuningJobArn"])
            return str(patient(sagemaker.create_training_job, **self.request)["TrainingJobArn"])
        except TfhetError as error:
            if self.secret in str(error):
                raise TfhetError(str(error).replace(self.secret, REDACTED)) from None
            raise
