"""The messages and the log of a training script, as its launcher receives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from tfhet.clock import SYSTEM, Clock
from tfhet.messages import MetricLine, rank

_RAN_OUT = "input ran out of data; interrupting training"
"""A warning of Keras 2 and 3 that is easily missed."""


class ScriptOutput:
    """Receives the messages and the log of one script. on_line: called with each line of the log, and each metric line
    that arrives as a message. on_metrics: with each metric line: from messages if the script sends them, else from its
    log. on_reading: when the script starts reading, with whether its data set is endless. on_report: with each report
    for the leader."""

    def __init__(
        self,
        on_line: Callable[[str], None],
        on_metrics: Callable[[MetricLine], None] = lambda line: None,
        on_reading: Callable[[bool], None] = lambda endless: None,
        on_report: Callable[[rank.LeaderReport], None] = lambda report: None,
        clock: Clock = SYSTEM,
    ):
        self.metrics: MetricLine | None = None
        """The last metric line; None before the first one, and on other ranks than 0."""
        self.totals: Mapping[str, float] = {}
        """The last totals of `rank.Progress`, without those that the script never sent."""
        self.progress_count = 0
        """Number of messages about its progress."""
        self._on_line, self._on_metrics, self._on_reading = on_line, on_metrics, on_reading
        self._on_report, self._clock = on_report, clock
        self._sends_metrics = self._has_run_out = False
        self._progress_s: float | None = None
        """When the script last sent its progress, on the clock; None if it never did."""

    def on_line(self, line: str) -> None:
        self._on_line(line)
        if _RAN_OUT in line and not self._has_run_out:
            self._has_run_out = True
            self._on_line(
                "[tfhet] the training is cut short: fit wanted more batches than its data set has. With "
                "tfhet.distribute, omit steps_per_epoch in fit, or pass the same number to distribute and fit"
            )
        if not self._sends_metrics and (metrics := MetricLine.parse(line)) is not None:
            self._count(metrics)

    def take(self, report: rank.Report) -> None:
        """Takes one message."""
        if isinstance(report, rank.Progress):
            self.expect_progress()
            self.progress_count += 1
            values = msgspec.structs.asdict(report)
            self.totals = {**self.totals, **{name: value for name, value in values.items() if value is not None}}
        elif isinstance(report, rank.Reading):
            self._on_reading(report.endless)
        elif isinstance(report, rank.LeaderReport):
            self._on_report(report)
        elif (metrics := MetricLine.parse(report.line)) is not None:
            self._sends_metrics = True
            self._on_line(str(metrics))
            self._count(metrics)

    def expect_progress(self) -> None:
        """Starts to measure `silent_s`."""
        self._progress_s = self._clock.monotonic()

    @property
    def missing(self) -> str:
        """What a silent script lacks, in words."""
        return "got no first batch" if self.totals.get("steps") == 0 else "took no step"

    async def stalls(self, limit_s: float) -> None:
        """Returns when a script that sends its progress has sent none for `limit_s` seconds; 0: never."""
        while not limit_s or self.silent_s() < limit_s:
            await asyncio.sleep(min(1.0, limit_s or 1.0))

    def silent_s(self) -> float:
        """Seconds since the script last sent its progress; 0 if it never did."""
        return 0.0 if self._progress_s is None else self._clock.monotonic() - self._progress_s

    def _count(self, metrics: MetricLine) -> None:
        self.metrics = metrics
        self._on_metrics(metrics)
