"""The metric line: the numbers of its latest steps that rank 0 prints now and then.

    [tfhet] step=500 epoch=2 step_ms=86.1 examples_per_s=95143 loss=2.3000 wait_pct=3.1

It is the one line without a word for its kind: the metric definitions of training jobs match it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfhet.messages.log_line import amount, read, whole, write

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
    """The numbers of one metric line: the step and epoch that were reached, and means over the steps since the metric
    line before."""

    step: int
    epoch: int
    step_ms: float
    examples_per_s: float
    """Of all ranks."""
    wait_pct: float
    """Share of the steps' time spent waiting for data, 0 to 100."""
    loss: float | None = None
    """Mean over the epoch so far; None for a training without one. May be nan or infinite."""

    @classmethod
    def parse(cls, line: str) -> MetricLine | None:
        """The numbers in a line of a log, whatever stands before them or after; None for any other line."""
        found = read(line)
        try:
            return None if found is None or found[0] else cls.of(found[1])
        except (KeyError, ValueError):
            return None

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> MetricLine:
        """The line with these fields. Raises KeyError and ValueError where it is another, or torn."""
        loss = float(fields["loss"]) if "loss" in fields else None
        step_ms, examples_per_s, wait_pct = (amount(fields[each]) for each in ("step_ms", "examples_per_s", "wait_pct"))
        return cls(whole(fields["step"]), whole(fields["epoch"]), step_ms, examples_per_s, wait_pct, loss)

    def __str__(self) -> str:
        loss = {} if self.loss is None else {"loss": f"{self.loss:.4f}"}
        fields = {"step": self.step, "epoch": self.epoch, "step_ms": f"{self.step_ms:.1f}"}
        fields |= {"examples_per_s": f"{self.examples_per_s:.0f}", **loss, "wait_pct": f"{self.wait_pct:.1f}"}
        return write("", fields)

    def numbers(self) -> Mapping[str, float]:
        """The numbers by the names that stand in the line, without those that are not there."""
        return {name: value for name, value in vars(self).items() if value is not None}


def metric_pattern(name: str, number: str) -> str:
    """The regular expression by which CloudWatch finds one number of the line; `number`: that of a number."""
    before = "" if name == "step" else "step=[0-9]+ .*"
    return rf"\[tfhet\] {before}{name}=({number})"
