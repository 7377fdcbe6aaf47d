"""What the log of a training job says of its hosts and its steps."""

from __future__ import annotations

from typing import Any

from tfhet.follow.log_streams import LogLine
from tfhet.messages import (
    EpochLine,
    FirstBatchLine,
    HostLine,
    JobResultLine,
    MetricLine,
    RestartLine,
    StepPartsLine,
    parse_line,
)


class Heard:
    """Takes lines, and holds what they say."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostLine | None] = {}
        """All that printed anything, with what their launchers said of themselves; None of who said nothing."""
        self.metrics: dict[int, MetricLine] = {}
        """By step: of a step that was taken twice, after a restart, the later."""
        self.trained_ms: tuple[int, int] | None = None
        """When the first and the last metric line was printed, in milliseconds since 1970."""
        self.ends: dict[str, tuple[int, str]] = {}
        """By host the exit code of a launcher that ended badly, and why."""
        self.epochs: dict[int, dict[str, Any]] = {}
        self.parts_ms: dict[str, float] = {}
        """As `RunSummary.step_parts_ms`."""
        self.first_batch_s: float | None = None
        self.restarts = 0
        """Of processes of the data service."""

    @property
    def introduced(self) -> dict[str, HostLine]:
        """The hosts whose launchers said where they are."""
        return {host: said for host, said in self.hosts.items() if said is not None}

    @property
    def steps(self) -> list[MetricLine]:
        """The metric lines in the order of their steps."""
        return [self.metrics[step] for step in sorted(self.metrics)]

    def hear(self, line: LogLine) -> bool:
        """Takes a line; whether it is a metric line."""
        self.hosts.setdefault(line.host, None)
        said = parse_line(line.text)
        if isinstance(said, MetricLine):
            self.metrics[said.step] = said
            first, last = self.trained_ms or (line.at_ms, line.at_ms)
            self.trained_ms = (min(first, line.at_ms), max(last, line.at_ms))
        elif isinstance(said, HostLine):
            self.hosts[line.host] = said
        elif isinstance(said, JobResultLine):
            self.ends.setdefault(line.host, (said.code, said.cause))
        elif isinstance(said, FirstBatchLine):
            self.first_batch_s = self.first_batch_s or said.after_s
        elif isinstance(said, StepPartsLine):
            self.parts_ms = dict(said.parts_ms)
        elif isinstance(said, EpochLine):
            self.epochs[int(said.numbers["epoch"])] = dict(said.numbers)
        elif isinstance(said, RestartLine):
            self.restarts += 1
        return isinstance(said, MetricLine)
