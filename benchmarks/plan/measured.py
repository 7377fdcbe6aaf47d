"""A case of `benchmarks.plan`, run once, right after a measurement of what its batches cost apart."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

from benchmarks.cluster_runs.cold_loads import Calm, cold_loads
from benchmarks.plan import run as plan_run
from benchmarks.plan.case import Frozen, PlanCase, PlanLoad
from benchmarks.plan.gauge import Gauge
from benchmarks.plan.outcome import PlanOutcome
from benchmarks.plan.phase import phases_of


def measured(
    case: PlanCase,
    alone: Gauge,
    calm: Calm,
    frozen: Frozen,
    written: Mapping[PlanLoad, Path],
    place: Path,
    seconds: float,
    *,
    name: str = "",
    whole: bool = True,
) -> PlanOutcome:
    """The case, run once. whole: with all phases, or only as it was drawn. Raises JobFailed, Stopped, or
    TfhetError where the gauge fails."""
    calm.wait()
    costs = alone.costs(case.load, written[case.load], case.positions, case.busiest_cpus)
    now = frozen.renewed(case.load, costs)
    ceilings_s = {resource: found.value for resource, found in case.prediction(now).ceilings_s.items()}
    relaxed = case.resources(now) if whole else []
    random.Random(case.number).shuffle(relaxed)  # on a machine that becomes slower, an early phase has the advantage
    phases = phases_of(case, relaxed, ceilings_s, seconds)
    folder = place / (name or f"case-{case.number}")
    with cold_loads() as loads:
        ran = plan_run.run(case, phases if whole else phases[:1], written[case.load], folder)
    shutil.rmtree(folder, ignore_errors=True)
    return PlanOutcome(case, tuple(relaxed), costs, ran, loads.ns)
