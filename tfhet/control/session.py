"""What the server of the link knows about one member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfhet.control.connection import Connection
from tfhet.control.handshake import JoinRequest
from tfhet.control.outbox import Outbox


@dataclass
class Session:
    """A member that has joined; it keeps its session when it dials again."""

    request: JoinRequest
    """With which the member joined."""
    connection: Connection | None
    """None while the connection is broken."""
    heard_s: float
    """When the last message of the member came, on the monotonic clock."""
    outbox: Outbox = field(default_factory=Outbox)
    broken_s: float = 0.0
    """When the connection broke, on the monotonic clock."""
    broken_why: str = ""
    left_code: int | None = None
    """Exit code with which the member left on purpose; None before that."""
    lost_why: str | None = None
    """Why the member was lost; None if it was not."""

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the member said about itself when it joined."""
        return self.request.facts

    @property
    def is_here(self) -> bool:
        """Whether the member holds its lease: it neither left nor was lost. Its connection may be broken."""
        return self.left_code is None and self.lost_why is None

    def loss(self, now_s: float, lease_s: float, grace_s: float) -> str | None:
        """The reason why the member is lost at `now_s`, or None. A member that was silent for the lease, or whose
        connection has been broken for longer than `grace_s`, is lost."""
        if self.connection is None and now_s - self.broken_s > grace_s:
            return f"gone without leaving ({self.broken_why})"
        if now_s - self.heard_s > lease_s:
            return f"silent for {now_s - self.heard_s:.1f} s, the lease is {lease_s:g} s"
        return None
