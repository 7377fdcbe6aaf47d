"""The share of a host's cores that one rank may use for its data."""

from __future__ import annotations

import os

from tfhet.strategies import JobContext


def threads_per_rank(job: JobContext) -> int:
    """Number of cores divided by the ranks of this host, at least 1."""
    return max(1, (os.cpu_count() or 1) // job.local_size)
