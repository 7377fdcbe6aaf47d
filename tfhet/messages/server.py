"""The messages from a process of a data plane to the launcher that started it, over the channel between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.schema import Amount, Count, Message, Port


class Ready(Message, frozen=True):
    """The process serves."""

    port: Port
    facts: Mapping[str, Any] = {}
    """Further facts about it, for its plane."""


class Registered(Message, frozen=True):
    """The number of workers that are now registered with this process."""

    workers: Count


class Used(Message, frozen=True):
    """Quantities that the process uses now, or has used so far."""

    figures: Mapping[str, Amount]
    """Numbers by name, for its plane."""


class Alive(Message, frozen=True):
    """Nothing new; the launcher takes a long silence for a hang."""


Report = Ready | Registered | Used | Alive
