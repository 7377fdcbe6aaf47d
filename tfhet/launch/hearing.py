"""The messages and log lines of one training script, as its launcher hears them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.messages import MessageError, MetricLine, rank


class Hearing:
    """Takes the messages and the log of one script.

    on_line: receives each line of the log, and each metric line that comes as a message. on_metrics: receives each
    metric line, from the messages of a script that sends them, else from its log. on_reading: called with whether a
    data set is endless, once it is read.
    """

    def __init__(
        self,
        on_line: Callable[[str], None],
        on_metrics: Callable[[MetricLine], None] = lambda line: None,
        on_reading: Callable[[bool], None] = lambda endless: None,
        clock: Clock = SYSTEM,
    ):
        self.metrics: MetricLine | None = None
        """The last metric line; None before the first, and on every rank but rank 0."""
        self.totals: Mapping[str, float] = {}
        """The last totals of `rank.Progress`, without those that the script never sent."""
        self._on_line, self._on_metrics, self._on_reading = on_line, on_metrics, on_reading
        self._clock = clock
        self._sends_metrics = False
        self._progress_s: float | None = None
        """When the script last sent its progress, on the clock; None for a script that never does."""

    def hear(self, line: str) -> None:
        """Takes one line of the log."""
        self._on_line(line)
        if not self._sends_metrics and (metrics := MetricLine.parse(line)) is not None:
            self._count(metrics)

    def take(self, values: Mapping[str, Any]) -> None:
        """Takes one message; ignores values that are none, or of a kind that this version does not know."""
        try:
            report = rank.parse_report(values)
        except MessageError:
            return
        if isinstance(report, rank.Progress):
            self.expect_progress()
            self.totals = {**self.totals, **{name: value for name, value in vars(report).items() if value is not None}}
        elif isinstance(report, rank.Reading):
            self._on_reading(report.endless)
        else:
            self._sends_metrics = True
            self._on_line(str(report))
            self._count(report)

    def expect_progress(self) -> None:
        """Counts a script that sends no progress from now on as stalled."""
        self._progress_s = self._clock.monotonic()

    async def stalls(self, limit_s: float) -> None:
        """Returns once a script that used to send its progress has sent none for `limit_s` seconds; 0: never."""
        while not limit_s or self._progress_s is None or self._clock.monotonic() - self._progress_s < limit_s:
            await asyncio.sleep(min(1.0, limit_s or 1.0))

    def _count(self, metrics: MetricLine) -> None:
        self.metrics = metrics
        self._on_metrics(metrics)
