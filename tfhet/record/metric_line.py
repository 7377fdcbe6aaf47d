"""The metric line: what rank 0 says of its steps now and then, for people and for what reads logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(
    r"\[tfhet\] step=(?P<step>\d{1,18}) epoch=(?P<epoch>\d{1,18}) step_ms=(?P<step_ms>[0-9.]+)"
    r" examples_per_s=(?P<examples_per_s>[0-9.]+)(?: loss=(?P<loss>\S+))? wait_pct=(?P<wait_pct>[0-9.]+)"
)

UNITS = {
    "step": "Count",
    "epoch": "Count",
    "step_ms": "Milliseconds",
    "examples_per_s": "Count/Second",
    "loss": "None",
    "wait_pct": "Percent",
}
"""The units of its numbers, in CloudWatch's words."""


@dataclass(frozen=True)
class MetricLine:
    """The numbers of one metric line: the step and epoch that were reached, and means over the steps since the one
    before."""

    step: int
    epoch: int
    step_ms: float
    examples_per_s: float
    """Of all ranks."""
    wait_pct: float
    """Share of the steps' time spent waiting for data, 0 to 100."""
    loss: float | None = None
    """Mean over the epoch so far; None of a training that has none. May be nan or infinite."""

    @classmethod
    def parse(cls, line: str) -> MetricLine | None:
        """What a line of a log says, whatever stands before it or behind; None for one that is no metric line."""
        found = _LINE.search(line)
        if found is None:
            return None
        told = found.groupdict()
        try:
            step_ms, pace, wait_pct = (float(told[name]) for name in ("step_ms", "examples_per_s", "wait_pct"))
            loss = None if told["loss"] is None else float(told["loss"])
        except ValueError:  # 1.2.3: the output of two processes, mixed
            return None
        return cls(int(told["step"]), int(told["epoch"]), step_ms, pace, wait_pct, loss)

    def __str__(self) -> str:
        loss = "" if self.loss is None else f" loss={self.loss:.4f}"
        return (
            f"[tfhet] step={self.step} epoch={self.epoch} step_ms={self.step_ms:.1f} "
            f"examples_per_s={self.examples_per_s:.0f}{loss} wait_pct={self.wait_pct:.1f}"
        )

    def numbers(self) -> Mapping[str, float]:
        """By the names that stand in the line, without those that are not there."""
        return {name: value for name, value in vars(self).items() if value is not None}
