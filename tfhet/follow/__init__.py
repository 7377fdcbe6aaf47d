"""A training job followed: its log, state, utilisation, diagnosis, cost, and the record of its run.

    import boto3
    from tfhet.follow import follow

    followed = follow("JOB_NAME", boto3.client("sagemaker"), boto3.client("logs"))
    print(followed.summary.usd, followed.exit_code)

The command `tfhet diagnose` is `examine` of this room.
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.follow.examination import Examined, examine
    from tfhet.follow.following import Followed, follow

lazy.names_on_demand(__name__)
