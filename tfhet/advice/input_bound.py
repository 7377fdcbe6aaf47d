"""When a run counts as input-bound: the only place that decides it, for measured, predicted and paid runs alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from tfhet.advice.finding import Finding, sentences

INPUT_BOUND_PCT = 10.0
"""Share of a step spent waiting for data from which a run is input-bound: without the wait it is 1.1 times faster."""
INPUT_KEEPS_UP_PCT = 3.0
"""Share of a step below which waiting for data is no more than the hand-over of a batch."""
BUSY_PCT = 80.0
"""Utilisation from which a resource is used up: one-minute means of bursty work do not reach 100 %."""
IDLE_PCT = 50.0
"""Utilisation below which most of a resource is unused: half of the data hosts' CPUs would do, for one."""


class InputState(Enum):
    """Whether training waits for its input."""

    BOUND = "input-bound"
    HARDLY = "hardly input-bound"
    NOT = "not input-bound"
    UNKNOWN = "unknown"


def state_by_wait(wait_pct: float | None) -> InputState:
    """The state of a run whose ranks wait for `wait_pct` of a step, 0 to 100. None and NaN give UNKNOWN."""
    if wait_pct is None or not math.isfinite(wait_pct):
        return InputState.UNKNOWN
    if wait_pct >= INPUT_BOUND_PCT:
        return InputState.BOUND
    return InputState.HARDLY if wait_pct >= INPUT_KEEPS_UP_PCT else InputState.NOT


def state_by_use(gpu_pct: float | None, cpus_are_busy: bool) -> InputState:
    """The state of a run of which only utilisation is known: how busy its GPUs are, 0 to 100, and its CPUs."""
    if gpu_pct is None:
        return InputState.UNKNOWN
    if gpu_pct >= BUSY_PCT:
        return InputState.NOT
    return InputState.HARDLY if gpu_pct >= IDLE_PCT and not cpus_are_busy else InputState.BOUND


def waiting(wait_pct: float, reason: str = "") -> Finding:
    """The finding that says how long a run waits, how much faster it would be without the wait, and the reason."""
    share = min(100.0, max(0.0, wait_pct))
    why = f"; {reason}" if reason else ""
    if share >= 99.95:
        said = f"input-bound: {share:.1f} % of the step is waiting for data, all of it{why}"
        return Finding("only_waiting", said)
    faster = f"{100.0 / (100.0 - share):.2f} times faster{why}"
    state = state_by_wait(wait_pct)
    if state is InputState.BOUND:
        said = f"{state.value}: {share:.1f} % of the step is waiting for data, without which it would be {faster}"
        return Finding("input_bound", said)
    kind = "hardly_input_bound" if state is InputState.HARDLY else "keeps_up"
    said = f"waiting for data is {share:.1f} % of the step, so a perfect input would make it {faster}"
    return Finding(kind, f"{state.value}: {said}")


@dataclass(frozen=True)
class Diagnosis:
    """Whether a run waits for its input, what that rests on, and what to do."""

    state: InputState
    verdict: Finding
    evidence: tuple[Finding, ...] = ()
    levers: tuple[Finding, ...] = ()
    """What to change, the most important first."""
    next_run: tuple[Finding, ...] = ()
    """What to switch on so that the next run shows more."""


def paragraph(found: Diagnosis) -> str:
    """A diagnosis in short: the verdict, and what to do."""
    return " ".join(sentences([found.verdict, *found.levers]))
