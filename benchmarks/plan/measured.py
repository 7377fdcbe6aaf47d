"""A case of `benchmarks.plan`, run once beside the yardstick, by which the machine's speed meanwhile is known."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from benchmarks.plan import run as plan_run
from benchmarks.plan.case import LOADS, RELAXABLE, Frozen, PlanCase, PlanLoad
from benchmarks.plan.outcome import PlanOutcome
from benchmarks.plan.phase import AGAIN, DRAWN, phases_of
from benchmarks.plan.yardstick import Yardstick


def reference_of(load: PlanLoad) -> PlanLoad:
    """The load by which the machine's speed is seen: the first of its chain."""
    return next(one for one in LOADS if one.chain == load.chain)


def measured(
    case: PlanCase,
    frozen: Frozen,
    yard: Yardstick,
    written: Mapping[PlanLoad, Path],
    place: Path,
    seconds: float,
    *,
    name: str = "",
    whole: bool = True,
) -> PlanOutcome:
    """The case, run once. whole: with all phases, or only as it was drawn. Raises JobFailed, or Stopped."""
    reference = reference_of(case.load)
    expected = case.prediction(frozen)
    order = [resource for resource in expected.ceilings_s if resource in RELAXABLE]
    phases = phases_of(case, {resource: expected.ceilings_s[resource].value for resource in order}, seconds)
    folder = place / (name or f"case-{case.number}")
    with yard.beside(reference.chain, reference.batch_size, written[reference]) as pace:
        ran = plan_run.run(case, phases if whole else phases[:1], written[case.load], folder)
    shutil.rmtree(folder, ignore_errors=True)
    references_s = [pace[0].batch_s(*ran.windows_s[name]) for name in (DRAWN, AGAIN) if name in ran.windows_s]
    return PlanOutcome(case, (order[0], order[1]), ran, tuple(references_s))
