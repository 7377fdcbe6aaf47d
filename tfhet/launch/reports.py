"""What launchers may tell each other: followers the leader, and the leader all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.errors import ClusterError, shown
from tfhet.launch.assignment import Assignment

_CODED: Mapping[str, tuple[type, ...]] = {"code": (int,), "cause": (str,)}
_FIELDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "plane": {"facts": (dict,)},
    "restarted": {"host": (str,), "process": (str,), "code": (int, type(None)), "cause": (str,)},
    "result": {"rank": (int,), **_CODED},
    "failed": _CODED,
    "stop": _CODED,
}
_ORDER: Mapping[str, tuple[type, ...]] = {"job_id": (str,), "plane": (dict,), "strategy": (dict,)}


def objection(message: Mapping[str, Any], size: int) -> str | None:
    """What is wrong with a report in a job of `size` ranks; None when nothing is. Other kinds are let through."""
    kind = message["type"]
    odd = _odd(message, _FIELDS.get(kind, {}))
    if odd is not None:
        return odd
    if kind == "result" and not 0 <= message["rank"] < size:
        return f"result: there is no rank {shown(message['rank'])}"
    if kind in ("result", "failed", "stop") and not -255 <= message["code"] <= 255:
        return f"{kind}: no process exits with code {shown(message['code'])}"
    return None


def objection_to_start(message: Mapping[str, Any], assignment: Assignment) -> str | None:
    """What is wrong with the leader's order to start; None when nothing is."""
    odd = _odd(message, _ORDER)
    if odd is None and not message["job_id"]:
        return "start: job_id is empty"
    if odd is None:
        try:
            assignment.plane.check(message["plane"])
            assignment.strategy.check(message["strategy"])
        except ClusterError as error:
            return f"start: {error}"
    return odd


def _odd(message: Mapping[str, Any], fields: Mapping[str, tuple[type, ...]]) -> str | None:
    kind = message["type"]
    for name, types in fields.items():
        if name not in message:
            return f"{kind}: {name} is missing"
        value = message[name]
        if not isinstance(value, types) or isinstance(value, bool):
            return f"{kind}: {name} is {shown(value)}"
    return None
