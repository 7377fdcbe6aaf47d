"""Memory for the batches that a reader receives, used again when nothing refers to a batch any more.

Fresh memory costs the kernel's zeroes: as much CPU as receiving into memory that is there (results/feed.json).
"""

from __future__ import annotations

import sys
import threading

import numpy as np

MOST_KEPT = 64
"""Maximum number of pieces that are kept."""
_OWN = 3
"""References to a piece that are the pool's: in its list, in a loop, and in the call that counts them."""


class Pool:
    """Pieces of memory. Those that are handed out belong to the arrays made of them."""

    def __init__(self) -> None:
        self._pieces: list[np.ndarray] = []
        self._within = threading.Lock()

    def take(self, size: int) -> np.ndarray:
        """uint8 [size], of any content, which nothing else refers to. Raises MemoryError."""
        with self._within:
            for piece in self._pieces:
                if size <= piece.size <= size + size // 4 and sys.getrefcount(piece) == _OWN:
                    return piece[:size]
            piece = np.empty(size, np.uint8)
            if len(self._pieces) >= MOST_KEPT:  # the oldest one stays with those who use it
                del self._pieces[0]
            self._pieces.append(piece)
            return piece[:size]
