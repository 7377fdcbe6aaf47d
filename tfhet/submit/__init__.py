"""The job file, its checks, the request to SageMaker that it makes, its archive, and sending them.

    from pathlib import Path
    from tfhet.submit import JobSubmission, read

    submission = JobSubmission.of(read(Path("job.yaml")))
    print(submission.shown)  # the arguments of create_training_job, without the secret

Sending is `submission.send(sagemaker, s3)`, with boto3's clients.
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.submit.job import ALONE, PIPE, Channel, Code, Job
    from tfhet.submit.job_file import parse, read
    from tfhet.submit.planned import with_plan, write_plan
    from tfhet.submit.request import DEFINITIONS, MPI_OPTIONS, create_request
    from tfhet.submit.rules import check_code
    from tfhet.submit.source_dir import LAUNCHER
    from tfhet.submit.submission import Archive, JobSubmission

lazy.names_on_demand(__name__)
