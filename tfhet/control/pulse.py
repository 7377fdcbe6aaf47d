"""The beat of a lease: when to renew it, and when this process itself has stood still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from tfhet.clock import Clock

BEATS_PER_LEASE = 20
"""Checks per lease for a silent peer."""


@dataclass(frozen=True)
class Beat:
    """One check."""

    now_s: float
    """On the monotonic clock."""
    stood_still_s: float
    """Seconds that this process was stopped or starved since the beat before, where that is much; else 0.

    Whatever peers sent meanwhile is still unread, so these seconds do not count as their silence.
    """


async def beats(
    lease_s: Callable[[], float], clock: Clock, renew: Callable[[], bool], since_s: float
) -> AsyncIterator[Beat]:
    """Yields BEATS_PER_LEASE times per lease, without end. Calls `renew` at least four times per lease, and with every
    beat as long as it returns False because there is no connection. `lease_s()`: seconds, may change. since_s: when the
    lease began, on `clock`, the monotonic one."""
    loop = asyncio.get_running_loop()
    due_s, last_s = loop.time(), since_s
    while True:
        step_s = lease_s() / BEATS_PER_LEASE
        if loop.time() >= due_s and renew():
            due_s = loop.time() + lease_s() / 4 - step_s
        await asyncio.sleep(step_s)
        now_s = clock.monotonic()
        stood_still_s, last_s = now_s - last_s - step_s, now_s
        yield Beat(now_s, stood_still_s if stood_still_s > lease_s() / 4 else 0.0)
