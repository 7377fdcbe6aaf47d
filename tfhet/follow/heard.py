"""What the log of a training job says of its hosts and its steps."""

from __future__ import annotations

import re
from typing import Any

from tfhet.follow.hosts import Introduction
from tfhet.follow.log_streams import LogLine
from tfhet.record import MetricLine

_ENDED = re.compile(r"\] the job ended with exit code (-?\d{1,3}): (.*)")
_FIRST_BATCH = re.compile(r"\[tfhet\] first batch after (\d{1,9}\.\d+) s")
_PARTS = re.compile(r"\[tfhet\] parts of a step, median: (.*)")
_EPOCH = re.compile(r"\[tfhet\] end of (epoch=.*)")
_RESTART = re.compile(r"\] .*; starting it again$")
_WORD = re.compile(r"(\w+)=(\S+)")


class Heard:
    """Takes lines, and holds what they say."""

    def __init__(self) -> None:
        self.hosts: dict[str, Introduction | None] = {}
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
    def introduced(self) -> dict[str, Introduction]:
        """The hosts whose launchers said where they are."""
        return {host: said for host, said in self.hosts.items() if said is not None}

    @property
    def steps(self) -> list[MetricLine]:
        """The metric lines in the order of their steps."""
        return [self.metrics[step] for step in sorted(self.metrics)]

    def hear(self, line: LogLine) -> bool:
        """Takes a line; whether it is a metric line."""
        self.hosts.setdefault(line.host, None)
        if (metric := MetricLine.parse(line.text)) is not None:
            self.metrics[metric.step] = metric
            first, last = self.trained_ms or (line.at_ms, line.at_ms)
            self.trained_ms = (min(first, line.at_ms), max(last, line.at_ms))
        elif (said := Introduction.parse(line.text)) is not None:
            self.hosts[line.host] = said
        elif (found := _ENDED.search(line.text)) is not None:
            self.ends.setdefault(line.host, (int(found[1]), found[2]))
        elif (found := _FIRST_BATCH.search(line.text)) is not None:
            self.first_batch_s = self.first_batch_s or float(found[1])
        elif (found := _PARTS.search(line.text)) is not None:
            told = _numbers(found[1])
            self.parts_ms = {name.removesuffix("_ms"): ms for name, ms in told.items() if name.endswith("_ms")}
        elif (found := _EPOCH.search(line.text)) is not None:
            result = _numbers(found[1])
            if isinstance(epoch := result.get("epoch"), int):
                self.epochs[epoch] = result
        elif _RESTART.search(line.text):
            self.restarts += 1
        return metric is not None


def _numbers(text: str) -> dict[str, Any]:
    """`a=1 b=2.5` -> the numbers; words that are none are left out."""
    found: dict[str, Any] = {}
    for name, value in _WORD.findall(text):
        try:
            found[name] = int(value[:18]) if value.isdecimal() else float(value)
        except ValueError:
            continue
    return found
