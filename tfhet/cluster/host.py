"""One machine of the cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """A host as the job's description names it."""

    name: str
    """Its name on the job's network, like `algo-1`. Says nothing about its group: that mapping changes per job."""
    group: str
    """Name of the group that it belongs to."""
    instance_type: str | None
    """Like `ml.c5.18xlarge`; None where there is none (a local run)."""
