"""A clock for tests."""

from __future__ import annotations


class FakeClock:
    """A clock that moves only when a caller sleeps on it."""

    def __init__(self, start_s: float = 0.0):
        self._now_s = start_s

    def monotonic(self) -> float:
        return self._now_s

    wall = cpu = monotonic

    def sleep(self, seconds: float) -> None:
        self._now_s += max(0.0, seconds)
