"""A thread that opens the next epoch while the present one is read."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

_LIMIT_S = 60.0
"""Maximum wait for the thread in seconds; after that the epoch is opened without it."""


class Prefetcher(threading.Thread):
    """Opens an epoch. It ignores errors: they occur again when the epoch is opened without it."""

    def __init__(self, epoch: int, work: Callable[[Prefetcher], Iterator[Any]]):
        """work: returns the batches; it may set `is_offered`, and should return when `ends` is set."""
        super().__init__(name="tfhet-ahead", daemon=True)
        self.epoch, self.is_offered, self.ends = epoch, False, threading.Event()
        self._work = work
        self._found: Iterator[Any] | None = None
        self.start()

    def run(self) -> None:
        with contextlib.suppress(Exception):
            found = self._work(self)
            self._found = None if self.ends.is_set() else found  # an unread reader would keep its share

    def result(self) -> Iterator[Any] | None:
        """Waits for the batches and returns them, once; None after an error."""
        self.join(_LIMIT_S)
        self.ends.set()
        found, self._found = self._found, None
        return found

    def end(self) -> None:
        """Drops the epoch."""
        self.ends.set()
        self.result()

    def has_offered(self) -> bool:
        """Waits for the thread and returns whether it has offered the epoch."""
        self.join(_LIMIT_S)
        return self.is_offered
