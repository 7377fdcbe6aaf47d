"""When a run counts as input-bound: the only place that decides it, for measured, predicted and paid runs alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from tfhet.advice.finding import Finding, Severity
from tfhet.advice.thresholds import BUSY_PCT, IDLE_PCT, INPUT_BOUND_PCT, INPUT_KEEPS_UP_PCT


class InputState(Enum):
    """Whether training waits for its input."""

    BOUND = "input-bound"
    HARDLY = "hardly input-bound"
    NOT = "not input-bound"
    UNKNOWN = "unknown"

    @property
    def severity(self) -> Severity:
        """A problem when training waits, advice when it hardly does, else a fact."""
        return {InputState.BOUND: Severity.PROBLEM, InputState.HARDLY: Severity.ADVICE}.get(self, Severity.FACT)


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


def waiting(wait_pct: float, about: Finding | None = None) -> Finding:
    """The finding that says how long a run waits, and how much faster it would be without. `about`: the reason."""
    state, share = state_by_wait(wait_pct), min(100.0, max(0.0, wait_pct))
    kinds = {InputState.BOUND: "input_bound", InputState.HARDLY: "hardly_input_bound", InputState.NOT: "keeps_up"}
    if share >= 99.95:
        return Finding("only_waiting", state.severity, {"wait_pct": share}, about)
    return Finding(kinds[state], state.severity, {"wait_pct": share, "speedup": 100.0 / (100.0 - share)}, about)


@dataclass(frozen=True)
class Diagnosis:
    """Whether a run waits for its input, what that rests on, and what to do."""

    state: InputState
    verdict: Finding
    evidence: tuple[Finding, ...] = ()
    levers: tuple[Finding, ...] = ()
    """What to change; the first comes first."""
    next_run: tuple[Finding, ...] = ()
    """What to switch on so that the next run tells more."""
