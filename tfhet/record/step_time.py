"""The components of a training step's time. Every figure about waiting in this project follows from this file.

A step of one rank begins when the step before it ends, and lasts until the process could begin the next one. Its time
divides into four components, which add up to `dur_s`:

- **wait**: the step waits for data. The rank has asked its reader for a batch and does not have it yet, and the device
  is idle meanwhile: time during which the device still computes the step before costs nothing and is not counted.
- **copy**: batches are brought to the device, in the type that the model takes.
- **allreduce**: from the moment when the rank's own gradients are complete to the moment when those of all ranks are
  summed. It holds the exchange, as far as computing does not hide it, and the wait for slower ranks.
- **compute**: the rest. It holds the allreduce where the two cannot be separated.

The wait share (`wait_pct`) is the sum of the waits of all measured steps over the sum of their durations; the first
steps of a run are not measured (`measured_steps`).

    >>> from tfhet.record import StepTime, wait_pct
    >>> wait_pct([StepTime(dur_s=0.5, wait_s=0.25), StepTime(dur_s=1.5, wait_s=0.25)])
    25.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
WARM_UP_STEPS = 3
"""First steps of a run that are not measured: they trace graphs and fill buffers."""


@dataclass(frozen=True)
class StepTime:
    dur_s: float
    wait_s: float
    """Seconds of `dur_s` during which the step waits for data."""
    examples: float = 0.0
    """Examples in the step, all ranks together."""
    copy_s: float = 0.0
    """Seconds of `dur_s` spent on bringing batches to the device."""
    allreduce_s: float | None = 0.0
    """Seconds of `dur_s` from the rank's own gradients to the sums of all ranks; None where they count as compute."""
    at_s: float = 0.0
    """Beginning of the step: seconds since 1970 in a timeline, seconds of the trainer's own clock in its meter."""
    step: int = 0
    """Number of steps taken, this one included."""
    epoch: int = 0
    rank: int = 0
    host: str = ""
    times: int = 1
    """Number of steps that it stands for: long runs keep a sample of their steps."""

    @property
    def compute_s(self) -> float:
        """Seconds of `dur_s` that are none of the other components; never negative."""
        return max(0.0, self.dur_s - self.wait_s - self.copy_s - (self.allreduce_s or 0.0))


@dataclass(frozen=True)
class Pause:
    """Time that a rank spends between two steps on something else. It is part of no step."""

    name: str
    """`checkpoint` or `validation`; in a script of one's own also `between epochs`."""
    at_s: float
    """Beginning, on the clock of `StepTime.at_s`."""
    dur_s: float
    rank: int = 0
    host: str = ""


def measured_steps(steps: Sequence[T]) -> Sequence[T]:
    """The steps after the warm-up, or a value of each of them; all steps of a run that has no others."""
    return steps[WARM_UP_STEPS:] or steps


def share_pct(steps: Sequence[StepTime], seconds_of: Callable[[StepTime], float]) -> float | None:
    """Share of the time of `steps` that `seconds_of` finds in them, 0 to 100; None where they took no time."""
    total_s = sum(step.times * step.dur_s for step in steps)
    return 100 * sum(step.times * seconds_of(step) for step in steps) / total_s if total_s else None


def wait_pct(steps: Sequence[StepTime]) -> float | None:
    """Share of the time of `steps` that is wait for data, 0 to 100; None where they took no time."""
    return share_pct(steps, lambda step: step.wait_s)
