"""How long the user's code has been making one batch, and where it stands: a server says so while it sends nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.errors import NotReady
from tfhet.planes.feed.frame import FrameError
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

    def said(self) -> dict[str, Any]:
        """Parts of the header "alive"; nothing where the user's code does not run."""
        now = self._now
        if now is None:
            return {}
        source, since_s, thread = now
        where = []
        for code, line in stack_of(thread):
            if _OWN in code.co_filename:
                break
            where.append(f"{code.co_name} ({Path(code.co_filename).name}, line {line})")
        return {"of": source, "for_s": SYSTEM.monotonic() - since_s, "at": where[:MOST_FRAMES]}


class Watch:
    """The reader's side, for one server."""

    def __init__(self, address: str, source: str, limit_s: float):
        """limit_s: maximum number of seconds that it may be making one batch of `source`. What it makes of another one
        has the limit of those that read that."""
        self._address, self._source, self._limit_s = address, source, limit_s
        self._has_said = False

    def heard(self, header: Mapping[str, Any]) -> str | None:
        """Takes a header "alive". Returns a line for the log, once for each batch that is slow. Raises NotReady beyond
        the limit, and FrameError for a header that cannot be read."""
        try:
            for_s, at = float(header.get("for_s") or 0), [str(one) for one in header.get("at") or ()]
        except (TypeError, ValueError, OverflowError) as error:
            raise FrameError(f"an answer that cannot be read: {error}") from None
        if for_s < min(SLOW_S, self._limit_s):
            self._has_said = False
            return None
        said = f"{header.get('of')} on {self._address} has been making one batch for {for_s:.0f} s"
        if at:
            said += f"; it is in {', called by '.join(at)}"
        if for_s > self._limit_s and header.get("of") == self._source:
            raise NotReady(f"{said}; at most {self._limit_s:g} s are allowed (make_limit_s)")
        had_said, self._has_said = self._has_said, True
        return None if had_said else f"[tfhet] {said}"
