"""What a process of a data plane tells the launcher that started it, over the channel between them.

channel.send(server.to_json(server.Ready(port=6000)))   # in the process
message = server.parse(values)                          # in the launcher; raises MessageError
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfhet.messages.grammar import Grammar, MessageError, check_amounts


@dataclass(frozen=True)
class Ready:
    """The process serves."""

    port: int
    """TCP port, 1 to 65535."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else its plane wants to know of it."""

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65535:
            raise MessageError(f"{self.port} is no TCP port")


@dataclass(frozen=True)
class Registered:
    """The number of workers that this process, which other processes register with, knows now."""

    workers: int

    def __post_init__(self) -> None:
        check_amounts(workers=self.workers)


@dataclass(frozen=True)
class Alive:
    """Nothing new; the launcher takes a long silence for a hang."""


Report = Ready | Registered | Alive

REPORTS = Grammar({"ready": Ready, "registered": Registered, "alive": Alive})


def to_json(message: Report) -> dict[str, Any]:
    """The values that go over the channel."""
    return REPORTS.to_json(message)


def parse(values: object) -> Report:
    """What the process tells its launcher. Raises MessageError."""
    report: Report = REPORTS.parse(values)
    return report
