"""Leases: when to renew one, when this process itself has stood still, and which members have lost theirs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from tfhet.clock import Clock
from tfhet.control.connection import Connection
from tfhet.control.message import Join
from tfhet.control.outbox import Outbox

BEATS_PER_LEASE = 20
"""Checks per lease for a silent peer, and renewals: a standstill of 0.9 leases, after the last one, must not matter."""


async def beats(
    lease_s: Callable[[], float], clock: Clock, renew: Callable[[], None], since_s: float
) -> AsyncIterator[tuple[float, float]]:
    """Calls `renew` and yields `now_s, stood_still_s` BEATS_PER_LEASE times per lease, without end.

    now_s: on the monotonic clock. stood_still_s: seconds that this process was stopped since the last beat, if more
    than a quarter of the lease, else 0; they do not count as silence of peers, whose messages are still unread."""
    last_s = since_s
    while True:
        renew()
        step_s = lease_s() / BEATS_PER_LEASE
        await asyncio.sleep(step_s)
        now_s = clock.monotonic()
        stood_still_s, last_s = now_s - last_s - step_s, now_s
        yield now_s, stood_still_s if stood_still_s > lease_s() / 4 else 0.0


@dataclass
class Standstill:
    """The last time that this process was stopped for so long that its peers may have lost their leases."""

    lease_s: float
    beat_s: float
    """When the last beat was."""
    ended_s: float = -math.inf
    seconds: float = 0.0

    def observe(self, now_s: float, stood_still_s: float) -> None:
        """Takes a beat, as `beats` yields it."""
        self.beat_s = now_s
        if stood_still_s > 0.9 * self.lease_s:
            self.ended_s, self.seconds = now_s, stood_still_s

    def is_recent(self, now_s: float) -> bool:
        """Whether peers that lost their leases by it may not have been found yet: it ended less than two leases ago."""
        return now_s - self.ended_s < 2 * self.lease_s

    def is_unnoticed(self, now_s: float) -> bool:
        """Whether the process was stopped since the last beat, and no beat has found that yet."""
        return now_s - self.beat_s > 0.9 * self.lease_s


@dataclass
class Session:
    """The server's state of a member that has joined; the member keeps it when it dials again."""

    request: Join
    connection: Connection | None
    """None while the connection is broken."""
    heard_s: float
    """Time of the last message of the member, on the monotonic clock."""
    outbox: Outbox = field(default_factory=Outbox)
    broken_s: float = 0.0
    broken_why: str = ""
    address: str = ""
    """IP address of its last connection."""
    left_code: int | None = None
    """Exit code with which the member left on purpose."""
    lost_why: str | None = None

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def is_here(self) -> bool:
        """Whether the member holds its lease: it neither left nor was lost. Its connection may be broken."""
        return self.left_code is None and self.lost_why is None

    def loss(self, now_s: float, lease_s: float, grace_s: float) -> str | None:
        """The reason why the member is lost: its silence, or a connection broken for longer than `grace_s`; or None."""
        if self.connection is None and now_s - self.broken_s > grace_s:
            return f"gone without leaving ({self.broken_why})"
        if now_s - self.heard_s > lease_s:
            return f"silent for {now_s - self.heard_s:.1f} s, the lease is {lease_s:g} s"
        return None
