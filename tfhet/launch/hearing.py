"""What a launcher hears of its training script: lines of the log, and notices that are for the launcher."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.messages import MetricLine
from tfhet.planes.notice import understood

TOTALS = ("steps", "examples", "step_s", "wait_s")
"""What the built-in trainer says of itself once a second (`trainer.Meter.totals`)."""


class Hearing:
    """The output of one script. `on_line` gets what is for the log, `on_metrics` what a metric line says, once it is
    there, and `on_reading` whether the script will read its data service `endlessly`."""

    def __init__(
        self,
        on_line: Callable[[str], None],
        on_metrics: Callable[[MetricLine], None] = lambda line: None,
        on_reading: Callable[[bool], None] = lambda endlessly: None,
        clock: Clock = SYSTEM,
    ):
        self.metrics: MetricLine | None = None
        """The last metric line; only rank 0 prints them."""
        self.totals: Mapping[str, float] = {}
        """The last of TOTALS that were told, as far as they were."""
        self._on_line, self._on_metrics, self._on_reading = on_line, on_metrics, on_reading
        self._clock = clock
        self._progress_s: float | None = None
        """When the script last said that it goes on, on the clock; None for one that never does."""

    def hear(self, line: str) -> None:
        """Takes one line."""
        notice = understood(line)
        if notice is not None:
            self._understand(*notice)
            return
        self._on_line(line)
        if (metrics := MetricLine.parse(line)) is not None:
            self.metrics = metrics
            self._on_metrics(metrics)

    def expect_progress(self) -> None:
        """From now on a script that says nothing of its progress stalls."""
        self._progress_s = self._clock.monotonic()

    async def stalls(self, limit_s: float) -> None:
        """Returns when a script that told of its progress has stopped to, for so long; 0: never."""
        while not limit_s or self._progress_s is None or self._clock.monotonic() - self._progress_s < limit_s:
            await asyncio.sleep(min(1.0, limit_s or 1.0))

    def _understand(self, event: str, fields: Mapping[str, Any]) -> None:
        if event == "goes on":
            self.expect_progress()
            told = {name: fields[name] for name in TOTALS if _is_amount(fields.get(name))}
            self.totals = {**self.totals, **told}
        elif event == "reads":
            self._on_reading(bool(fields.get("endlessly")))


def _is_amount(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf  # type: ignore[operator]
