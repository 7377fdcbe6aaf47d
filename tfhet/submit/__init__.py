"""The job file, its checks, the request to SageMaker that it makes, its archive, and sending them.

    from pathlib import Path
    from tfhet.submit import JobSubmission, read

    submission = JobSubmission.of(read(Path("job.yaml")))
    print(submission.shown)  # the arguments of create_training_job, without the secret

Sending is `submission.send(sagemaker, s3)`, with boto3's clients.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
