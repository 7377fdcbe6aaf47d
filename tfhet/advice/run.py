"""Whether a run waited for its input, by how much, and what to do first: one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tfhet.record import Figure, RunSummary
from tfhet.report import numbers
from tfhet.report.utilisation import HostUse, busiest

BOUND_PCT = 10.0
"""From this share of the step on a run is called input-bound: without the wait it would be 1.1 times faster."""
FREE_PCT = 3.0
"""Below it the wait is what handing over a batch takes."""
IDLE_PCT = 50.0
"""A data group whose busiest host uses less of its CPUs could do with half of them."""


@dataclass(frozen=True)
class Verdict:
    """One sentence, and its kind."""

    kind: str
    """`bound`, `partly`, `free` or `unknown`."""
    sentence: str


def verdict(
    summary: RunSummary,
    *,
    costs: Sequence[tuple[str, Figure]] = (),
    hosts: Sequence[HostUse] = (),
    decision: str = "",
) -> Verdict:
    """The verdict on a run. What else is known makes the advice a better one.

    costs: the parts of its pipeline in order, the source first, with their CPU time per example (`StageCosts.named`).
    hosts: `utilisation.use_of_hosts`. decision: the last sentence of a plan's.
    """
    share = summary.wait_pct
    if share is None or not math.isfinite(share):
        return Verdict("unknown", "Whether this run waited for its input is not known: no step of it was measured.")
    share = min(100.0, max(0.0, share))
    told = numbers.percent(share)
    idle = _idle(summary, hosts)
    if share >= FREE_PCT:
        first = _cheaper(costs) if idle is None or share < BOUND_PCT else f"first find out why, since {_of(idle)}"
    else:
        first = (
            "first shorten the training step itself"
            if idle is None
            else f"first try fewer data CPUs, since {_of(idle)}"
        )
    advice = first + (f"; the plan says: {decision.removeprefix('So ').rstrip('. ')}" if decision else "")
    if share >= BOUND_PCT:
        gain = f"without which it would be {_gain(share)} times faster" if share < 99.95 else "all of it"
        return Verdict("bound", f"Input-bound: {told} of the step is waiting for data, {gain}; {advice}.")
    most = f"waiting for data is {told} of the step, so a perfect input would make it {_gain(share)} times faster"
    if share >= FREE_PCT:
        return Verdict("partly", f"Hardly input-bound: {most}; {advice}.")
    return Verdict("free", f"Not input-bound: {most}; {advice}.")


def _gain(share: float) -> str:
    return numbers.number(100.0 / (100.0 - share))


def _cheaper(costs: Sequence[tuple[str, Figure]]) -> str:
    whole = sum(max(0.0, figure.value) for _, figure in costs)
    if not 0 < whole < math.inf:
        return "first measure the pipeline with `tfhet profile`: cheaper stages come before more machines"
    at, (name, figure) = max(enumerate(costs), key=lambda item: item[1][1].value)
    part = f"{100.0 * figure.value / whole:.0f} % of the pipeline's CPU"
    return f"first look at {name}, which is {part}" if at == 0 else f"first make {name} cheaper, which is {part}"


def _idle(summary: RunSummary, hosts: Sequence[HostUse]) -> HostUse | None:
    """The busiest data host, if even that one uses less than IDLE_PCT of its CPUs."""
    data = [name for name, group in summary.cluster.items() if group.get("role") == "data"]
    host = busiest(hosts, data)
    return host if host is not None and host.used_pct is not None and host.used_pct < IDLE_PCT else None


def _of(host: HostUse) -> str:
    return f"the busiest data host, {host.name}, used {numbers.percent(host.used_pct)} of its CPUs"
