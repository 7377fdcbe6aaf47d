"""Writes in a thread of their own, so that a reader or a disk that stalls never holds up the process that writes."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from tfhet.clock import SYSTEM

MOST = 10_000
"""Entries that wait to be written; beyond that the oldest ones are dropped, so that the last words survive."""
LAST_S = 2.0
"""Seconds that a process waits at its end for a reader or a disk."""
GATHER_S = 0.5
"""Seconds for which an entry waits for others that may be merged with it."""

T = TypeVar("T")


class Writer(Generic[T]):
    """Hands entries to `write`, which may block or raise, one by one in a daemon thread. on_dropped: makes the entry
    that replaces dropped ones, from their number. gather: merges the entries that arrive within GATHER_S."""

    def __init__(
        self,
        name: str,
        write: Callable[[T], None],
        on_dropped: Callable[[int], T] | None = None,
        most: int = MOST,
        gather: Callable[[Sequence[T]], Iterable[T]] | None = None,
    ):
        self._write, self._on_dropped, self._most, self._gather = write, on_dropped, most, gather
        self._waiting: deque[T] = deque()
        self._unsaid = 0
        self._is_busy = self._is_closing = self._is_hurried = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, entry: T) -> None:
        """Adds an entry; returns at once. After `close` it is dropped."""
        with self._changed:
            if self._is_closing:
                return
            if len(self._waiting) == self._most:
                self._waiting.popleft()
                self._unsaid += 1
            self._waiting.append(entry)
            self._changed.notify_all()

    def flush(self, limit_s: float) -> bool:
        """Waits until all entries are written, at most `limit_s` seconds. Returns whether they are."""
        until_s = SYSTEM.monotonic() + limit_s
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            while self._waiting or self._is_busy:
                left_s = until_s - SYSTEM.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
        return True

    def close(self, limit_s: float = LAST_S) -> bool:
        """Writes what waits, for at most `limit_s` seconds, and ends the thread. Returns whether all was written."""
        done = self.flush(limit_s)
        with self._changed:
            self._is_closing = True
            self._waiting.clear()
            self._changed.notify_all()
        if done:
            self._thread.join()
        return done

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                while not self._waiting:
                    if self._is_closing:
                        return
                    self._is_hurried = False
                    self._changed.wait()
                entries = [self._waiting.popleft()] if self._gather is None else self._gathered()
                if self._unsaid and self._on_dropped is not None:
                    entries.insert(0, self._on_dropped(self._unsaid))
                self._unsaid, self._is_busy = 0, True
            for entry in entries if self._gather is None else self._gather(entries):
                with contextlib.suppress(Exception):  # the thread goes on
                    self._write(entry)

    def _gathered(self) -> list[T]:
        """Takes all that waits, once GATHER_S are over, much waits, or the end must not wait."""
        self._changed.wait_for(lambda: self._is_hurried or len(self._waiting) > self._most // 2, GATHER_S)
        entries = list(self._waiting)
        self._waiting.clear()
        return entries


def write_whole(descriptor: int, content: bytes) -> None:
    """Writes all of `content` to a file descriptor. Raises OSError, for instance when its reader has ended."""
    while content:
        content = content[os.write(descriptor, content) :]
