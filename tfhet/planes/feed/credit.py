"""How many batches a rank lets a server have in work and on the way: few large or slow ones, several small quick ones.

A reader that takes small batches spends more on asking, and on waking up, than on the bytes. Several on the way are
asked for in one message, and come one after the other.
"""

from __future__ import annotations

from tfhet.errors import UsageError
from tfhet.units import MIB

LEAST, MOST = 2, 8
"""Batches of a rank that each server has in work, on the way, or waiting: at first and at most."""
MOST_BYTES = 32 * MIB
"""Bytes of the batches of all servers together beyond which none has more than LEAST."""
FOR_S = 0.05
"""Seconds for which a server may have work: one that takes longer for a batch has LEAST."""
MOST_ASKED = 1024
"""Batches in one message."""
_WEIGHT = 0.25
"""Weight of the newest time between two batches in their mean."""


class Credit:
    """The number of batches that one server may have, and when to ask it for more."""

    def __init__(self, servers: int = 1, fixed: int | None = None):
        """servers: how many share MOST_BYTES. fixed: as many, whatever comes. Raises UsageError for less than 1."""
        if fixed is not None and fixed < 1:
            raise UsageError(f"ahead must be at least 1, not {fixed}")
        self.most = LEAST if fixed is None else fixed
        """Number of batches that it may have."""
        self._servers, self._is_fixed = servers, fixed is not None
        self._last_s: float | None = None
        self._between_s: float | None = None

    def came(self, size: int, now_s: float) -> None:
        """Notes that a batch of `size` bytes has come."""
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
        self.most = max(LEAST, min(MOST, in_time, in_bytes))

    def asks(self, has: int) -> int:
        """Number of batches to ask for when the server has so many: half of all at least, in one message."""
        free = min(MOST_ASKED, self.most - has)
        return free if 2 * (self.most - has) >= self.most else 0
