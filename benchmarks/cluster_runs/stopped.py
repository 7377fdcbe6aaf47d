"""The error that ends a suite whose process was asked to stop while one of its jobs ran."""

from __future__ import annotations

from tfhet.errors import JobFailed
from tfhet.record import RunSummary
from tfhet.simulate.simulation import STOPPED_ON_REQUEST


class Stopped(JobFailed):
    """Somebody wants the suite to end: nothing is made again, and nothing else is begun."""


def unless_stopped(summary: RunSummary) -> RunSummary:
    """The same. Raises Stopped when the job ended because this process was told to stop."""
    if summary.cause == STOPPED_ON_REQUEST:
        raise Stopped(STOPPED_ON_REQUEST)
    return summary
