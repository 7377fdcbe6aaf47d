"""What the coordinator knows about one member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfhet.control.connection import Connection
from tfhet.control.handshake import JoinRequest
from tfhet.control.outbox import Outbox


@dataclass
class Session:
    """A member that has joined. It stays the same seat when the member dials again."""

    newcomer: JoinRequest
    facts: Mapping[str, Any]
    """What the member said about itself when it joined."""
    connection: Connection | None
    """None while the connection is broken."""
    heard_s: float
    """When the member last said anything (monotonic)."""
    outbox: Outbox = field(default_factory=Outbox)
    broken_s: float = 0.0
    """When the connection broke (monotonic)."""
    broken_why: str = ""
    left_code: int | None = None
    """The code it left with; None while it has not left on purpose."""
    lost_why: str | None = None
    """Why it was given up; None while it was not."""

    @property
    def name(self) -> str:
        return self.newcomer.name

    @property
    def is_here(self) -> bool:
        """Whether it holds its lease: neither left nor lost. Its connection may be broken for the moment."""
        return self.left_code is None and self.lost_why is None

    def loss(self, now_s: float, lease_s: float, grace_s: float) -> str | None:
        """Why the member has to be given up now; None when it need not."""
        if self.connection is None and now_s - self.broken_s > grace_s:
            return f"gone without leaving ({self.broken_why})"
        if now_s - self.heard_s > lease_s:
            return f"silent for {now_s - self.heard_s:.1f} s, the lease is {lease_s:g} s"
        return None
