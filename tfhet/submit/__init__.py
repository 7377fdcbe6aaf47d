"""The job file, its checks, the request to SageMaker that it makes, its archive, and sending them.

    from pathlib import Path
    from tfhet.submit import JobSubmission, read

    submission = JobSubmission.of(read(Path("job.yaml")))
    print(submission.shown)  # the arguments of create_training_job, without the secret

Sending is `submission.send(sagemaker, s3)`, with boto3's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.submit.archive import Archive
    from tfhet.submit.aws import AwsRefused, Patient, client
    from tfhet.submit.hyperparameters import MPI_OPTIONS
    from tfhet.submit.job import ALONE, PIPE, Channel, CheckpointPlace, Code, Job, JobGroup, JobLimits, Spot, Vpc
    from tfhet.submit.job_file import parse, read
    from tfhet.submit.metrics import DEFINITIONS
    from tfhet.submit.planned import with_plan
    from tfhet.submit.request import create_request, redacted
    from tfhet.submit.rules import check_code
    from tfhet.submit.submission import JobSubmission

__all__ = [
    "ALONE",
    "DEFINITIONS",
    "MPI_OPTIONS",
    "PIPE",
    "Archive",
    "AwsRefused",
    "Channel",
    "CheckpointPlace",
    "Code",
    "Job",
    "JobGroup",
    "JobLimits",
    "JobSubmission",
    "Patient",
    "Spot",
    "Vpc",
    "check_code",
    "client",
    "create_request",
    "parse",
    "read",
    "redacted",
    "with_plan",
]

lazy.names_on_demand(
    __name__,
    {
        "archive": "Archive",
        "aws": "AwsRefused Patient client",
        "hyperparameters": "MPI_OPTIONS",
        "job": "ALONE PIPE Channel CheckpointPlace Code Job JobGroup JobLimits Spot Vpc",
        "job_file": "parse read",
        "metrics": "DEFINITIONS",
        "planned": "with_plan",
        "request": "create_request redacted",
        "rules": "check_code",
        "submission": "JobSubmission",
    },
)
