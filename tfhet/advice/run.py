"""Whether a run waited for its input, by how much, and what to do first: of its summary."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfhet.advice.finding import Finding, advice, fact
from tfhet.advice.input_bound import Diagnosis, InputState, state_by_wait, waiting
from tfhet.advice.thresholds import IDLE_PCT
from tfhet.record import Figure, RunSummary


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
        return Diagnosis(state, fact("no_steps"))
    idle = busiest_data_host if busiest_data_host and busiest_data_host[1] < IDLE_PCT else None
    if state is InputState.NOT:
        lever = _of_host("fewer_data_cpus", idle) if idle else advice("shorten_step")
    else:
        lever = _of_host("find_the_wait", idle) if idle and state is InputState.BOUND else _cheaper(costs)
    levers = [lever, *([advice("plan_says").quoting(choice)] if choice else [])]
    return Diagnosis(state, waiting(wait_pct), levers=tuple(levers))


def _of_host(kind: str, host: tuple[str, float]) -> Finding:
    return advice(kind, host=host[0], cpu_pct=host[1])


def _cheaper(costs: Sequence[tuple[str, Figure]]) -> Finding:
    whole = sum(max(0.0, figure.value) for _, figure in costs)
    if not 0 < whole < math.inf:
        return advice("measure_the_pipeline")
    at, (name, figure) = max(enumerate(costs), key=lambda item: item[1][1].value)
    return advice("cheaper_part" if at else "dear_source", part=name, share_pct=100.0 * figure.value / whole)
