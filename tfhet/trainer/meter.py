"""Where the time of the steps goes, and the line that says so."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.record import Spread

WARM_UP_STEPS = 3
"""First steps of a run that are kept apart: they trace graphs and fill buffers."""


@dataclass(frozen=True)
class StepTime:
    """One step of one rank."""

    step_s: float
    wait_s: float
    """Part of `step_s` spent waiting for data."""
    examples: float
    """Of all ranks."""


class Meter:
    """Collects the steps of one rank."""

    def __init__(self) -> None:
        self._steps: list[StepTime] = []
        self._since_line = 0

    def add(self, step: StepTime) -> None:
        self._steps.append(step)

    @property
    def measured(self) -> list[StepTime]:
        """The steps without the warm-up, or all of a run that is no longer than that."""
        return self._steps[WARM_UP_STEPS:] or self._steps

    def step_ms(self) -> Spread | None:
        return Spread.of([1e3 * step.step_s for step in self.measured]) if self._steps else None

    def wait_ms(self) -> Spread | None:
        return Spread.of([1e3 * step.wait_s for step in self.measured]) if self._steps else None

    def wait_pct(self) -> float | None:
        """Share of the time of all measured steps spent waiting for data, 0 to 100."""
        total = sum(step.step_s for step in self.measured)
        return 100 * sum(step.wait_s for step in self.measured) / total if total else None

    def examples_per_s(self) -> float | None:
        total = sum(step.step_s for step in self.measured)
        return sum(step.examples for step in self.measured) / total if total else None

    def line(self, step: int, epoch: int, loss: float | None) -> str:
        """The metric line of the steps since the last one. The SageMaker metric definitions match it."""
        recent = self._steps[self._since_line :]
        self._since_line = len(self._steps)
        total = sum(s.step_s for s in recent) or 1e-9
        parts = [
            f"[tfhet] step={step} epoch={epoch} step_ms={1e3 * total / max(1, len(recent)):.1f}",
            f"examples_per_s={sum(s.examples for s in recent) / total:.0f}",
            *([] if loss is None else [f"loss={loss:.4f}"]),
            f"wait_pct={100 * sum(s.wait_s for s in recent) / total:.1f}",
        ]
        return " ".join(parts)
