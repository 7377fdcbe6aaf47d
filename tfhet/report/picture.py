"""A run at one moment: its steps, its hosts, and what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfhet.messages import MetricLine

INCIDENTS = (
    "fault.injected",
    "host.lost",
    "job.left_behind",
    "job.stopping",
    "link.member_lost",
    "link.member_refused",
    "link.member_returned",
    "service.restarted",
)
"""Events of faults, whether they were injected or not."""


@dataclass(frozen=True)
class Picture:
    """The run at one moment."""

    state: str
    """`starting`, `training`, `ending`, `succeeded` or `failed`, with its cause where there is one."""
    is_over: bool
    exit_code: int | None = None
    """Exit code of the job, once it is over."""
    elapsed_s: float | None = None
    """Seconds since the first event; the duration of a run that is over."""
    steps: Sequence[MetricLine] = ()
    """All metric lines in the order of steps; the last one is now."""
    workers: int | None = None
    """Number of data workers that the launchers reported; None where none did."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """State of each host, or member of the link (`rank-1`), in words."""
    restarts: int = 0
    """Number of processes that were started again."""
    incidents: Sequence[Mapping[str, Any]] = ()
    """The events among INCIDENTS, in order."""
    quiet_s: float | None = None
    """Seconds since anything in the folder changed; None for an empty folder."""
    name: str = ""
    """Name of the job, or the folder."""
    cost: str = ""
    """The cost of the run so far, in words; "" where it costs nothing."""


def event_line(event: Mapping[str, Any]) -> str:
    """An event in one line, without its time."""
    rest = (f"{key}={json.dumps(value, default=str)}" for key, value in event.items() if key not in ("time_s", "event"))
    return " ".join([str(event.get("event")), *rest])
