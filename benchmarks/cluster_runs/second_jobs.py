"""A second job that is started on a host of a simulated one: whether the two meet, and how the second one ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.cluster import LISTEN_VARIABLE
from tfhet.simulate import Fault

_ENDED, _REFUSED = ": the second job ", ": the second job ended: exit code 2: "


def listening(faults: Sequence[Fault]) -> dict[str, str]:
    """Variables of a job to which `faults` are done: where one of them is a second job on the leader's host, all
    launchers listen everywhere. The second job is alone, so it would listen at the loopback only, where the leader of a
    cluster does not, and each would go on without the other."""
    meets = any(fault.kind == "second-job" and fault.host == "dnn-1" for fault in faults)
    return {LISTEN_VARIABLE: "0.0.0.0"} if meets else {}


def not_refused(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The reports, among a run's events, of second jobs that did not end as a job does whose port is in use."""
    told = [str(event.get("fault")) for event in events if event["event"] == "fault.injected"]
    return [line for line in told if _ENDED in line and not (_REFUSED in line and "port" in line)]
