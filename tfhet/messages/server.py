"""The messages from a process of a data plane to the launcher that started it, over the channel between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfhet.messages.grammar import Amount, Count, Grammar, Port


@dataclass(frozen=True)
class Ready:
    """The process serves."""

    port: Port
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further facts about it, for its plane."""


@dataclass(frozen=True)
class Registered:
    """The number of workers that are now registered with this process."""

    workers: Count


@dataclass(frozen=True)
class Used:
    """Quantities that the process uses now, or has used so far."""

    figures: Mapping[str, Amount]
    """Numbers by name, for its plane."""


@dataclass(frozen=True)
class Alive:
    """Nothing new; the launcher takes a long silence for a hang."""


Report = Ready | Registered | Used | Alive

REPORTS: Grammar[Report] = Grammar({"ready": Ready, "registered": Registered, "used": Used, "alive": Alive})
to_json, parse = REPORTS.to_json, REPORTS.parse
