"""Where the time of the steps goes, and the line that says so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from tfhet.clock import Clock
from tfhet.messages import MetricLine, StepPartsLine
from tfhet.record import Spread, median
from tfhet.record.run import WARM_UP_STEPS


@dataclass(frozen=True)
class StepTime:
    """One step of one rank."""

    step_s: float
    wait_s: float
    """Part of `step_s` spent waiting for data."""
    examples: float
    """Of all ranks."""
    copy_s: float = 0.0
    """Part of it spent bringing batches to the device, in the type that the model takes."""
    allreduce_s: float | None = 0.0
    """Part of it from when this rank's gradients were there to when those of all were; None: not told apart."""
    began_s: float = 0.0
    """When, on the clock."""
    number: int = 0
    """Steps taken, this one included."""
    epoch: int = 0

    @property
    def compute_s(self) -> float:
        """The rest of it."""
        return max(0.0, self.step_s - self.wait_s - self.copy_s - (self.allreduce_s or 0.0))


@dataclass(frozen=True)
class Pause:
    """Time between steps that was spent on something else."""

    name: str
    """`checkpoint` or `validation`."""
    began_s: float
    """When, on the clock."""
    took_s: float


class Meter:
    """Collects the steps of one rank."""

    def __init__(self) -> None:
        self.pauses: list[Pause] = []
        self._steps: list[StepTime] = []
        self._since_line = 0
        self._examples = self._step_s = self._wait_s = 0.0

    def add(self, step: StepTime) -> None:
        self._steps.append(step)
        self._examples += step.examples
        self._step_s += step.step_s
        self._wait_s += step.wait_s

    def totals(self) -> dict[str, float]:
        """Sums over all steps, the warm-up included: their number, examples of all ranks, and seconds."""
        return {
            "steps": len(self._steps),
            "examples": self._examples,
            "step_s": self._step_s,
            "wait_s": self._wait_s,
        }

    @contextlib.contextmanager
    def pause(self, name: str, clock: Clock) -> Iterator[None]:
        """Counts what is done within it as a pause."""
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

    def parts_ms(self) -> dict[str, float]:
        """Median milliseconds of each part of the measured steps; `allreduce` only where it was told apart."""
        if not self._steps:
            return {}
        parts: dict[str, list[float | None]] = {
            "wait": [step.wait_s for step in self.measured],
            "copy": [step.copy_s for step in self.measured],
            "compute": [step.compute_s for step in self.measured],
            "allreduce": [step.allreduce_s for step in self.measured],
        }
        told = {name: [1e3 * each for each in values if each is not None] for name, values in parts.items()}
        return {name: median(values) for name, values in told.items() if len(values) == len(self.measured)}

    def parts_line(self) -> str:
        """The line at the end of a run that says where a step goes."""
        parts = self.parts_ms()
        return str(StepPartsLine(parts)) if parts else "[tfhet] no step was taken"

    def paused_s(self, name: str) -> float:
        """Seconds of all pauses of a name."""
        return sum(pause.took_s for pause in self.pauses if pause.name == name)

    def line(self, step: int, epoch: int, loss: float | None) -> MetricLine:
        """What the metric line says of the steps since the last one."""
        recent = self._steps[self._since_line :]
        self._since_line = len(self._steps)
        total = sum(s.step_s for s in recent) or 1e-9
        return MetricLine(
            step,
            epoch,
            step_ms=1e3 * total / max(1, len(recent)),
            examples_per_s=sum(s.examples for s in recent) / total,
            wait_pct=100 * sum(s.wait_s for s in recent) / total,
            loss=loss,
        )
