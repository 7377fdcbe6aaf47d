"""An epoch that a thread opens while another one is read."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

_LIMIT_S = 60.0
"""Maximum wait for the thread, in seconds; after that it is given up, and the epoch is opened without it."""


class Ahead(threading.Thread):
    """Opens an epoch, as far as it can: what goes wrong goes wrong again when the epoch is opened without it."""

    def __init__(self, epoch: int, work: Callable[[Ahead], Iterator[Any]]):
        """work: returns the batches. It may set `is_offered`, and should end when `ends` is set."""
        super().__init__(name="tfhet-ahead", daemon=True)
        self.epoch, self.is_offered, self.ends = epoch, False, threading.Event()
        self._work = work
        self._found: Iterator[Any] | None = None
        self.start()

    def run(self) -> None:
        with contextlib.suppress(Exception):
            found = self._work(self)
            self._found = None if self.ends.is_set() else found  # a reader that is never read would hold its share

    def taken(self) -> Iterator[Any] | None:
        """Returns the batches, once, when they are there; None where they could not be had."""
        self.join(_LIMIT_S)
        self.ends.set()
        found, self._found = self._found, None
        return found

    def end(self) -> None:
        """Gives the epoch up."""
        self.ends.set()
        self.taken()

    def has_offered(self) -> bool:
        """Whether the epoch is offered, once the thread is done."""
        self.join(_LIMIT_S)
        return self.is_offered
