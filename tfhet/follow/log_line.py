"""A line of a job's log, and the window that orders lines of several hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tfhet.clock import Clock

WINDOW_S = 5.0
_HOST = re.compile(r"(algo-\d+)(?:-|$)")


@dataclass(frozen=True)
class LogLine:
    host: str
    at_ms: int
    """Time in milliseconds since 1970."""
    text: str
    """Without the line break."""


def host_of(stream: str) -> str:
    """Returns the host of a stream: algo-2 of JOB/algo-2-1700000000; else the part after the job's name."""
    own = stream.partition("/")[2] or stream
    found = _HOST.match(own)
    return found.group(1) if found else own.replace("/", "_")


class LogWindow:
    """Holds lines for `window_s` seconds and returns them in order of time; a later line is returned at once."""

    def __init__(self, clock: Clock, window_s: float = WINDOW_S):
        self._clock, self._window_s = clock, window_s
        self._held: list[tuple[float, LogLine]] = []
        """Lines, each with the time at which it was added."""
        self._given_ms = -1

    def add(self, lines: Iterable[LogLine]) -> None:
        now_s = self._clock.monotonic()
        self._held += [(now_s, line) for line in lines]

    def due(self) -> list[LogLine]:
        """Returns the lines held long enough, and all lines older than one of them."""
        long_ago_s = self._clock.monotonic() - self._window_s
        held = [line.at_ms for added_s, line in self._held if added_s <= long_ago_s]
        self._given_ms = max([self._given_ms, *held])
        return self._give(self._given_ms)

    def rest(self) -> list[LogLine]:
        """Returns all held lines."""
        return self._give(max((line.at_ms for _, line in self._held), default=0))

    def _give(self, until_ms: int) -> list[LogLine]:
        given = [line for _, line in self._held if line.at_ms <= until_ms]
        self._held = [each for each in self._held if each[1].at_ms > until_ms]
        return sorted(given, key=lambda line: line.at_ms)
