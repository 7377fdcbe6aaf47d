"""The metric line, which rank 0 prints every few steps; programs that read logs parse it."""

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
"""Unit of each number, as CloudWatch names it."""


@dataclass(frozen=True)
class MetricLine:
    """The numbers of one metric line: the step and epoch reached, and means over the steps since the previous line."""

    step: int
    epoch: int
    step_ms: float
    examples_per_s: float
    """Throughput of all ranks together."""
    wait_pct: float
    """Wait share of these steps on rank 0, 0 to 100 (`record.step_time`)."""
    loss: float | None = None
    """Mean over the epoch so far; None for a training without a loss. May be nan or infinite."""

    @classmethod
    def parse(cls, line: str) -> MetricLine | None:
        """The metric line within a line of a log, whatever surrounds it; None for any other line."""
        found = _LINE.search(line)
        if found is None:
            return None
        fields = found.groupdict()
        try:
            step_ms, pace, wait_pct = (float(fields[name]) for name in ("step_ms", "examples_per_s", "wait_pct"))
            loss = None if fields["loss"] is None else float(fields["loss"])
        except ValueError:  # such as 1.2.3: mixed output of two processes
            return None
        return cls(int(fields["step"]), int(fields["epoch"]), step_ms, pace, wait_pct, loss)

    def __str__(self) -> str:
        loss = "" if self.loss is None else f" loss={self.loss:.4f}"
        return (
            f"[tfhet] step={self.step} epoch={self.epoch} step_ms={self.step_ms:.1f} "
            f"examples_per_s={self.examples_per_s:.0f}{loss} wait_pct={self.wait_pct:.1f}"
        )

    def numbers(self) -> Mapping[str, float]:
        """The numbers by their names in the line; those that the line lacks are left out."""
        return {name: value for name, value in vars(self).items() if value is not None}
