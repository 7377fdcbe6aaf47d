"""A device that takes time and no CPU, beside the process that feeds it."""

from __future__ import annotations

from tfhet.clock import SYSTEM, Clock


class EmulatedDevice:
    """Works on one step after the other. As on a GPU, whose work is only queued, the process that feeds it may be a
    step ahead: it is kept until the last step that it handed over has begun."""

    def __init__(self, clock: Clock = SYSTEM):
        self.idle_s = 0.0
        """How long it had nothing to do before the last step began."""
        self._clock = clock
        self._begins_s = self._ends_s = clock.monotonic()

    def begin(self, step_s: float) -> None:
        """Hands over a step that takes so long."""
        self._clock.sleep(max(0.0, self._begins_s - self._clock.monotonic()))
        self._begins_s = max(self._clock.monotonic(), self._ends_s)
        self.idle_s = self._begins_s - self._ends_s
        self._ends_s = self._begins_s + step_s

    def finish(self) -> None:
        """Waits until all is done."""
        self._clock.sleep(max(0.0, self._ends_s - self._clock.monotonic()))
