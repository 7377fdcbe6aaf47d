"""A step that takes a given time and no CPU: studies input pipelines on a machine without a GPU."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.clock import SYSTEM, Clock
from tfhet.strategies import Collective

if TYPE_CHECKING:
    from tfhet.trainer.step import Batch


class EmulatedDevice:
    """Works on one step after the other. As on a GPU, whose work is only queued, the process that feeds it may be a
    step ahead: it is kept until the last step that it handed over has begun."""

    def __init__(self, clock: Clock = SYSTEM):
        self.idle_s = 0.0
        """Seconds without work before the last step began."""
        self._clock = clock
        self._begins_s = self._ends_s = clock.monotonic()

    def begin(self, step_s: float) -> None:
        self._clock.sleep(max(0.0, self._begins_s - self._clock.monotonic()))
        self._begins_s = max(self._clock.monotonic(), self._ends_s)
        self.idle_s = self._begins_s - self._ends_s
        self._ends_s = self._begins_s + step_s

    def finish(self) -> None:
        self._clock.sleep(max(0.0, self._ends_s - self._clock.monotonic()))


class EmulatedAccelerator:
    """An accelerator without a model, on an EmulatedDevice."""

    learns = False

    def __init__(self, step_s: float, collective: Collective, clock: Clock = SYSTEM, file: Path | None = None):
        """file: read before each step; where it exists and holds a number, that is the step in milliseconds."""
        self.step_s = step_s
        self.idle_s = self.copied_s = self.allreduce_s = 0.0
        self._collective, self._clock, self._file = collective, clock, file
        self._device = EmulatedDevice(clock)
        self._held = 0.0

    def accumulate(self, batch: Batch) -> None:
        self._begin()
        self._held += float(batch[1].shape[0])

    def step(self, batch: Batch | None, stop: bool = False) -> Any:
        count, self._held = self._held + (0.0 if batch is None else float(batch[1].shape[0])), 0.0
        if batch is not None:
            self._begin()
        else:
            self._device.finish()
        ready_s = self._clock.monotonic()
        total, votes = self._collective.total([count, float(stop)], "emulated")
        self.allreduce_s = self._clock.monotonic() - ready_s
        return total, 0.0, 0.0, votes

    def evaluate(self, batch: Batch) -> Any:
        return float(batch[1].shape[0]), 0.0, 0.0

    def _begin(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                self.step_s = max(0.0, float(self._file.read_text(encoding="ascii"))) / 1e3
        self._device.begin(self.step_s)
        self.idle_s = self._device.idle_s
