"""How long the user's code has been making one batch, and where it stands: a server says so while it sends nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady
from tfhet.planes.feed.message import Alive
from tfhet.process import stack_of

MAKE_LIMIT_S = 600.0
"""Seconds that the user's code may take for one batch, with all that it loads before the first one."""
SLOW_S = 30.0
"""Seconds for one batch after which readers say where the user's code stands."""
MOST_FRAMES = 6
_OWN = "/tfhet/planes/feed/"


class Work:
    """The server's side: `with work.on(source):` around the user's code."""

    def __init__(self) -> None:
        self._now: tuple[str, float, int] | None = None

    @contextlib.contextmanager
    def on(self, source: str) -> Iterator[None]:
        self._now = source, SYSTEM.monotonic(), threading.get_ident()
        try:
            yield
        finally:
            self._now = None

    def said(self) -> Alive:
        """The message that a server sends meanwhile."""
        now = self._now
        if now is None:
            return Alive()
        source, since_s, thread = now
        where = []
        for code, line in stack_of(thread):
            if _OWN in code.co_filename:
                break
            where.append(f"{code.co_name} ({Path(code.co_filename).name}, line {line})")
        return Alive(source, SYSTEM.monotonic() - since_s, tuple(where[:MOST_FRAMES]))


class Watch:
    """The reader's side, for one server."""

    def __init__(self, address: str, source: str, limit_s: float):
        """limit_s: maximum number of seconds that it may be making one batch of `source`. What it makes of another one
        has the limit of those that read that."""
        self._address, self._source, self._limit_s = address, source, limit_s
        self._has_said = False

    def heard(self, alive: Alive) -> str | None:
        """Returns a line for the log, once for each batch that is slow. Raises NotReady beyond the limit."""
        if alive.for_s < min(SLOW_S, self._limit_s):
            self._has_said = False
            return None
        said = f"{alive.source} on {self._address} has been making one batch for {alive.for_s:.0f} s"
        if alive.at:
            said += f"; it is in {', called by '.join(alive.at)}"
        if alive.for_s > self._limit_s and alive.source == self._source:
            raise NotReady(f"{said}; at most {self._limit_s:g} s are allowed (make_limit_s)")
        had_said, self._has_said = self._has_said, True
        return None if had_said else f"[tfhet] {said}"
