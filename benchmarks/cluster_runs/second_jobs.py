"""Second jobs, which are started on a host of a simulated one: how they meet it, and how they end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfhet.cluster import LISTEN_VARIABLE
from tfhet.simulate import Fault

LEADER = "dnn-1"
"""The host of the leader, as faults name it."""
_EVERYWHERE = {LISTEN_VARIABLE: "0.0.0.0"}
_ENDED, _REFUSED = ": the second job ", ": the second job ended: exit code 2: "


def variables(faults: Iterable[Fault]) -> dict[str, str]:
    """Variables of the environment of all launchers of a job to which `faults` are done: it listens everywhere where a
    second job comes to its leader's host. That one is alone, and would listen at the loopback only, where the leader
    of a cluster does not, so that neither would notice the other."""
    return _EVERYWHERE if any(fault.kind == "second-job" and fault.host == LEADER for fault in faults) else {}


def not_refused(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The reports, among a run's events, of second jobs that did not end as a job does whose port is in use."""
    told = [str(event.get("fault")) for event in events if event["event"] == "fault.injected"]
    return [line for line in told if _ENDED in line and not (_REFUSED in line and "port" in line)]
