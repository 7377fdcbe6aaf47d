"""Events, reported to an observer. Rooms emit them; only the room that started the run listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One thing that happened on one host."""

    name: str
    """A noun and a verb in the past, like `worker.started`."""
    time_s: float
    fields: Mapping[str, Any] = field(default_factory=dict)
    """JSON values."""

    def as_json(self) -> dict[str, Any]:
        return {"time_s": round(self.time_s, 6), "event": self.name, **self.fields}


Observer = Callable[[Event], None]


def ignore(event: Event) -> None:
    """An observer that does nothing."""
