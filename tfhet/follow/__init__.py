"""A training job followed: its log, state, utilisation, diagnosis, cost, and the record of its run.

    import boto3
    from tfhet.follow import follow

    followed = follow("JOB_NAME", boto3.client("sagemaker"), boto3.client("logs"))
    print(followed.summary.usd, followed.exit_code)

The command `tfhet diagnose` is `examine` of this room.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
