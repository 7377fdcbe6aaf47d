"""A channel that keeps its messages."""

from __future__ import annotations

from typing import Any

from tfhet.messages import MetricLine, ProcessChannel, rank


class Sent(ProcessChannel):
    def __init__(self) -> None:
        super().__init__(None)
        self.reports: list[rank.Report] = []

    def send(self, message: Any, limit_s: float = 0.0) -> bool:
        self.reports.append(message)
        return True

    @property
    def lines(self) -> list[MetricLine]:
        return [MetricLine.parse(each.line) for each in self.reports if isinstance(each, rank.Metrics)]  # type: ignore
