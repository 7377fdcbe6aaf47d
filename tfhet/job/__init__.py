"""The job file, the request to SageMaker that it makes, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.job.archive import Archive
    from tfhet.job.job import Channel, Checkpoints, Code, Group, Job, Limits, Spot, Vpc
    from tfhet.job.job_file import parse, read
    from tfhet.job.planned import with_plan
    from tfhet.job.request import create_request, redacted
    from tfhet.job.sdk import script
    from tfhet.job.submission import Submission

__all__ = [
    "Archive",
    "Channel",
    "Checkpoints",
    "Code",
    "Group",
    "Job",
    "Limits",
    "Spot",
    "Submission",
    "Vpc",
    "create_request",
    "parse",
    "read",
    "redacted",
    "script",
    "with_plan",
]

lazy.names_on_demand(
    __name__,
    {
        "archive": "Archive",
        "job": "Channel Checkpoints Code Group Job Limits Spot Vpc",
        "job_file": "parse read",
        "planned": "with_plan",
        "request": "create_request redacted",
        "sdk": "script",
        "submission": "Submission",
    },
)
