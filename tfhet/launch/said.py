"""What a member may report to the chief."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.errors import shown

_CODED: Mapping[str, tuple[type, ...]] = {"code": (int,), "cause": (str,)}
_FIELDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "serving": {"host": (str,), "native": (list,)},
    "workers": {"count": (int,)},
    "restarted": {"host": (str,), "process": (str,), "code": (int, type(None)), "cause": (str,)},
    "result": {"rank": (int,), **_CODED},
    "failed": _CODED,
    "stop": _CODED,
}


def objection(message: Mapping[str, Any], size: int) -> str | None:
    """What is wrong with a report in a job of `size` ranks; None when nothing is. Other kinds are let through."""
    kind = message["type"]
    for name, types in _FIELDS.get(kind, {}).items():
        if name not in message and name != "native":
            return f"{kind}: {name} is missing"
        value = message.get(name, [])
        if not isinstance(value, types) or isinstance(value, bool):
            return f"{kind}: {name} is {shown(value)}"
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            return f"{kind}: {name} holds something else than names"
    if kind == "result" and not 0 <= message["rank"] < size:
        return f"result: there is no rank {shown(message['rank'])}"
    if kind in ("result", "failed", "stop") and not -255 <= message["code"] <= 255:
        return f"{kind}: no process exits with code {shown(message['code'])}"
    return None
