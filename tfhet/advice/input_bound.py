"""When a run counts as input-bound, and what to do first: decided here for measured, predicted and paid runs alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tfhet.advice.finding import Finding, sentences
from tfhet.record import Figure, RunSummary

INPUT_BOUND_PCT = 10.0
"""Share of a step spent waiting for data from which a run is input-bound: without the wait it is 1.1 times faster."""
INPUT_KEEPS_UP_PCT = 3.0
"""Share of a step below which waiting for data is no more than the hand-over of a batch."""
BUSY_PCT = 80.0
"""Utilisation from which a resource is used up: one-minute means of bursty work do not reach 100 %."""
IDLE_PCT = 50.0
"""Utilisation below which most of a resource is unused: half of the data hosts' CPUs would do, for one."""
SHORTEN_STEP = Finding(
    "shorten_step", "first shorten the training step itself: neither cheaper stages nor more CPUs do that"
)


class InputState(Enum):
    """Whether training waits for its input."""

    BOUND = "input-bound"
    HARDLY = "hardly input-bound"
    NOT = "not input-bound"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Diagnosis:
    """Whether a run waits for its input, the evidence, and what to do."""

    state: InputState
    verdict: Finding
    evidence: tuple[Finding, ...] = ()
    levers: tuple[Finding, ...] = ()
    """Changes to make, the most important first."""
    next_run: tuple[Finding, ...] = ()
    """Settings to switch on so that the next run shows more."""


def paragraph(found: Diagnosis) -> str:
    """A diagnosis in short: the verdict, and what to do."""
    return " ".join(sentences([found.verdict, *found.levers]))


def state_by_wait(wait_pct: float | None) -> InputState:
    """The state of a run whose ranks wait for `wait_pct` of a step, 0 to 100. None and NaN give UNKNOWN."""
    if wait_pct is None or not math.isfinite(wait_pct):
        return InputState.UNKNOWN
    if wait_pct >= INPUT_BOUND_PCT:
        return InputState.BOUND
    return InputState.HARDLY if wait_pct >= INPUT_KEEPS_UP_PCT else InputState.NOT


def state_by_use(gpu_pct: float | None, cpus_are_busy: bool) -> InputState:
    """The state of a run by its utilisation alone: GPUs busy for `gpu_pct` of the time, 0 to 100, and busy CPUs."""
    if gpu_pct is None:
        return InputState.UNKNOWN
    if gpu_pct >= BUSY_PCT:
        return InputState.NOT
    return InputState.HARDLY if gpu_pct >= IDLE_PCT and not cpus_are_busy else InputState.BOUND


def waiting(wait_pct: float, reason: str = "") -> Finding:
    """The finding that says how long a run waits, how much faster it would be without the wait, and the reason."""
    share, why = min(100.0, max(0.0, wait_pct)), f"; {reason}" if reason else ""
    waits = f"{share:.1f} % of the step is waiting for data"
    if share >= 99.95:
        return Finding("only_waiting", f"input-bound: {waits}, all of it{why}")
    faster = f"{100.0 / (100.0 - share):.2f} times faster{why}"
    state = state_by_wait(wait_pct)
    if state is InputState.BOUND:
        return Finding("input_bound", f"{state.value}: {waits}, without which it would be {faster}")
    return Finding(
        "hardly_input_bound" if state is InputState.HARDLY else "keeps_up",
        f"{state.value}: waiting for data is {share:.1f} % of the step, so a perfect input would make it {faster}",
    )


def of_run(
    summary: RunSummary,
    *,
    costs: Sequence[tuple[str, Figure]] = (),
    busiest_data_host: tuple[str, float] | None = None,
    choice: Finding | None = None,
) -> Diagnosis:
    """The diagnosis of a run; what else is known makes its advice better.

    costs: the parts of the pipeline in order, the source first, with their CPU time per example.
    busiest_data_host: its name, and the share of its CPUs that it used, 0 to 100.
    choice: what a plan chose (`choice_of`).
    """
    state = state_by_wait(summary.wait_pct)
    if summary.wait_pct is None or state is InputState.UNKNOWN:
        no_steps = "whether this run waited for its input is not known: no step of it was measured"
        return Diagnosis(state, Finding("no_steps", no_steps))
    lever = SHORTEN_STEP if state is InputState.NOT else _cheaper(costs)
    if busiest_data_host and busiest_data_host[1] < IDLE_PCT:
        since = f"since the busiest data host, {busiest_data_host[0]}, used {busiest_data_host[1]:.1f} % of"
        if state is InputState.NOT:
            lever = Finding("fewer_data_cpus", f"first try fewer data CPUs, {since} them")
        elif state is InputState.BOUND:
            lever = Finding("find_the_wait", f"first find out why, {since} its CPUs")
    plan = (Finding("plan_says", f"the plan says: {choice.clause}"),) if choice else ()
    return Diagnosis(state, waiting(summary.wait_pct), levers=(lever, *plan))


def _cheaper(costs: Sequence[tuple[str, Figure]]) -> Finding:
    whole = sum(max(0.0, figure.value) for _, figure in costs)
    if not 0 < whole < math.inf:
        first = "first measure the pipeline with `tfhet profile`: cheaper stages come before more machines"
        return Finding("measure_the_pipeline", first)
    at, (part, figure) = max(enumerate(costs), key=lambda item: item[1][1].value)
    share = f"which is {100.0 * figure.value / whole:.0f} % of the pipeline's CPU"
    if at:
        return Finding("cheaper_part", f"first make {part} cheaper, {share}")
    return Finding("dear_source", f"first look at {part}, {share}")
