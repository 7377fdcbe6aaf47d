"""The number of batches that a server may have for a rank."""

from __future__ import annotations

from tfhet.errors import UsageError
from tfhet.units import MIB

LEAST, MOST = 2, 32
"""Batches of a rank that a server has in progress, in transit, or waiting: at first and at most."""
MOST_OF_EACH = 8
"""Batches that each of several servers may have even if its part of MOST is smaller."""
MOST_BYTES = 32 * MIB
"""Limit for the bytes of the batches of all servers together; beyond it each server has LEAST batches."""
FOR_S = 0.05
"""Seconds of work that a server may have; one that takes longer for a batch has LEAST batches."""
MOST_REQUESTED = 1024
"""Maximum number of batches in one message."""
_WEIGHT = 0.25
"""Weight of the newest interval between two batches in their mean."""


class Credit:
    """The number of batches that a server may have for one rank: few if they are large or slow, more otherwise.

    Requests and wake-ups cost more than the bytes of small batches, so the reader requests several in one message."""

    def __init__(self, servers: int = 1, fixed: int | None = None):
        """servers: number of servers that share MOST and MOST_BYTES; fixed: a constant credit, at least 1."""
        if fixed is not None and fixed < 1:
            raise UsageError(f"ahead must be at least 1, not {fixed}")
        self.most = LEAST if fixed is None else fixed
        """Number of batches that the server may have."""
        self.most_early = self.most
        """The same, with batches that arrived and wait for earlier ones of another server: memory alone limits them."""
        self._servers, self._is_fixed = servers, fixed is not None
        self._limit = max(MOST_OF_EACH, MOST // servers)
        self._last_s: float | None = None
        self._between_s: float | None = None

    def on_batch(self, size: int, now_s: float) -> None:
        """size: in bytes."""
        if self._is_fixed:
            return
        last_s, self._last_s = self._last_s, now_s
        if last_s is None:
            return
        between_s = now_s - last_s
        if self._between_s is not None:
            between_s = _WEIGHT * between_s + (1.0 - _WEIGHT) * self._between_s
        self._between_s = between_s
        in_time, in_bytes = int(FOR_S / max(between_s, 1e-6)), MOST_BYTES // (self._servers * max(size, 1))
        self.most_early = max(LEAST, min(MOST, in_bytes))
        self.most = max(LEAST, min(self._limit, in_time, in_bytes))

    def free(self, has: int, early: int = 0) -> int:
        """Returns how many batches to request from a server that has `has`: 0, or at least half of all. early: those of
        them that wait for earlier batches of other servers, which may be slower."""
        free = min(self.most - has + early, self.most_early - has)
        return min(MOST_REQUESTED, free) if 2 * free >= self.most else 0
