"""Whether a run waited for its input, by how much, and what to do first: from its summary."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfhet.advice.finding import Finding
from tfhet.advice.input_bound import IDLE_PCT, Diagnosis, InputState, state_by_wait, waiting
from tfhet.record import Figure, RunSummary

SHORTEN_STEP = Finding(
    "shorten_step", "first shorten the training step itself: neither cheaper stages nor more CPUs do that"
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
    wait_pct = summary.wait_pct
    state = state_by_wait(wait_pct)
    if wait_pct is None or state is InputState.UNKNOWN:
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
    return Diagnosis(state, waiting(wait_pct), levers=(lever, *plan))


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
