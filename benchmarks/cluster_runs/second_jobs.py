"""The outcome of a second job that was started on a host of a simulated one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ENDED, _REFUSED = ": the second job ", ": the second job ended: exit code 2: "


def not_refused(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The reports, among a run's events, of second jobs that did not end as a job does whose port is in use."""
    told = [str(event.get("fault")) for event in events if event["event"] == "fault.injected"]
    return [line for line in told if _ENDED in line and not (_REFUSED in line and "port" in line)]
