"""The meter of a rank: its steps, its pauses, and the figures that follow from them.

What a step's components are, the wait among them, is defined in `tfhet.record.step_time`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from tfhet.clock import Clock
from tfhet.messages import MetricLine, StepPartsLine, rank
from tfhet.record import Pause, Spread, StepTime, median, wait_pct


class Meter:
    """Collects the steps and pauses of one rank; times are on the clock of the training loop."""

    def __init__(self) -> None:
        self.pauses: list[Pause] = []
        self._steps: list[StepTime] = []
        self._since_line = 0
        self._examples = self._step_s = self._wait_s = 0.0

    def add(self, step: StepTime) -> None:
        self._steps.append(step)
        self._examples += step.examples
        self._step_s += step.dur_s
        self._wait_s += step.wait_s

    def totals(self) -> rank.Progress:
        """Sums over all steps, the warm-up included."""
        return rank.Progress(len(self._steps), self._examples, self._step_s, self._wait_s)

    @contextlib.contextmanager
    def pause(self, name: str, clock: Clock) -> Iterator[None]:
        """Records the body of the `with` statement as a pause."""
        began_s = clock.monotonic()
        try:
            yield
        finally:
            self.pauses.append(Pause(name, began_s, clock.monotonic() - began_s))

    @property
    def steps(self) -> list[StepTime]:
        """All steps, the warm-up included."""
        return self._steps

    @property
    def measured(self) -> Sequence[StepTime]:
        """The steps after the warm-up; all steps of a run that has no others."""
        return measured(self._steps)

    def step_ms(self) -> Spread | None:
        """Duration of a measured step in milliseconds; None before the first step."""
        return Spread.of([1e3 * step.dur_s for step in self.measured]) if self._steps else None

    def wait_ms(self) -> Spread | None:
        """Wait for data in a measured step in milliseconds; None before the first step."""
        return Spread.of([1e3 * step.wait_s for step in self.measured]) if self._steps else None

    def wait_pct(self) -> float | None:
        """Wait share of the measured steps, 0 to 100; None before the first step."""
        return wait_pct(self.measured)

    def examples_per_s(self) -> float | None:
        """Throughput of all ranks over the measured steps; None before the first step."""
        total = sum(step.dur_s for step in self.measured)
        return sum(step.examples for step in self.measured) / total if total else None

    def parts_ms(self) -> dict[str, float]:
        """Median milliseconds of each component of the measured steps; `allreduce` only where it is known in all."""
        if not self._steps:
            return {}
        parts: dict[str, list[float | None]] = {
            "wait": [step.wait_s for step in self.measured],
            "copy": [step.copy_s for step in self.measured],
            "compute": [step.compute_s for step in self.measured],
            "allreduce": [step.allreduce_s for step in self.measured],
        }
        known = {name: [1e3 * each for each in values if each is not None] for name, values in parts.items()}
        return {name: median(values) for name, values in known.items() if len(values) == len(self.measured)}

    def parts_line(self) -> str:
        """The line at the end of a run with the median of each component of a step."""
        parts = self.parts_ms()
        return str(StepPartsLine(parts)) if parts else "[tfhet] no step was taken"

    def paused_s(self, name: str) -> float:
        """Seconds of all pauses of one name."""
        return sum(pause.dur_s for pause in self.pauses if pause.name == name)

    def line(self, step: int, epoch: int, loss: float | None) -> MetricLine:
        """The metric line over the steps since the previous one."""
        recent = self._steps[self._since_line :]
        self._since_line = len(self._steps)
        total = sum(each.dur_s for each in recent) or 1e-9
        return MetricLine(
            step,
            epoch,
            step_ms=1e3 * total / max(1, len(recent)),
            examples_per_s=sum(each.examples for each in recent) / total,
            wait_pct=wait_pct(recent) or 0.0,
            loss=loss,
        )
