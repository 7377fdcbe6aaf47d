"""Follows a training job: log, state, cost and record of the run; diagnoses it by its utilisation.

    import boto3
    from tfhet.follow import follow

    followed = follow("JOB_NAME", boto3.client("sagemaker"), boto3.client("logs"))
    print(followed.summary.usd, followed.exit_code)

`tfhet diagnose` is the function `examine`.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
