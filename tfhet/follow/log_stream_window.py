"""A short wait for lines that come late, so that they can be shown in the order of their times."""

from __future__ import annotations

from collections.abc import Iterable

from tfhet.clock import Clock
from tfhet.follow.log_streams import LogLine

WINDOW_S = 5.0


class LogWindow:
    """Holds lines for `window_s` and gives them in the order of their times, those of one time as they were added.

    A line that comes so late that younger ones have been given is given at once.
    """

    def __init__(self, clock: Clock, window_s: float = WINDOW_S):
        self._clock, self._window_s = clock, window_s
        self._held: list[tuple[float, LogLine]] = []
        """Each with the time when it was added."""
        self._given_ms = -1

    def add(self, lines: Iterable[LogLine]) -> None:
        now_s = self._clock.monotonic()
        self._held += [(now_s, line) for line in lines]

    def due(self) -> list[LogLine]:
        """The lines that were held long enough, and all that are older than one of them."""
        long_ago_s = self._clock.monotonic() - self._window_s
        held = [line.at_ms for added_s, line in self._held if added_s <= long_ago_s]
        self._given_ms = max([self._given_ms, *held])
        return self._give(self._given_ms)

    def rest(self) -> list[LogLine]:
        """All lines that are held."""
        return self._give(max((line.at_ms for _, line in self._held), default=0))

    def _give(self, until_ms: int) -> list[LogLine]:
        given = [line for _, line in self._held if line.at_ms <= until_ms]
        self._held = [each for each in self._held if each[1].at_ms > until_ms]
        return sorted(given, key=lambda line: line.at_ms)
