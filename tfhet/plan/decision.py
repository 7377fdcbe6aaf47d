"""From measurements and prices to a plan: today's cluster, the best with and without data hosts, and the choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfhet.plan.host import ClusterShape
from tfhet.plan.money import Candidate, Market, PlanLimits, break_even_usd_per_hour
from tfhet.plan.prediction import best_layout
from tfhet.plan.result import Plan
from tfhet.plan.search import Rated, Space, candidate, frontier, ranking, rated
from tfhet.plan.sensitivity import sensitivity
from tfhet.plan.workload import Workload
from tfhet.planes import DataPlane
from tfhet.record import Interval

SHOWN = 8
"""Number of best candidates that are kept, beside the frontier, today's, and the best with and without data hosts."""
SHORTLIST = 40
"""Number of best clusters among which the choice is made again when an input moves."""

NO_LIMITS = PlanLimits()


def make_plan(
    workload: Workload,
    today: ClusterShape,
    space: Space,
    market: Market,
    plane: DataPlane,
    *,
    limits: PlanLimits = NO_LIMITS,
    saves_us: float = 0.0,
    notes: Sequence[str] = (),
) -> Plan:
    """Returns the choice among today's cluster and every one of the space.

    plane: the data plane whose costs `workload` has. saves_us: CPU microseconds per example that cheaper stages may
    save, at most. notes: assumptions of the inputs. Raises UsageError for inputs that do not fit.
    """
    order = ranking(rated(workload, dict.fromkeys([today, *space.clusters()]), market))
    fitting = [one for one in order if not limits.missed(one.s_per_million, one.usd_per_million)]
    edge = frontier(order)
    own = next(one for one in order if one.cluster == today)
    bests = [next((one for one in fitting if (one.cluster.data is None) is bare), None) for bare in (True, False)]
    kept = {one.cluster for one in (own, *bests, *fitting[:SHOWN], *edge) if one}
    candidates = [
        replace(
            candidate(workload, one, market),
            missed=limits.missed(one.s_per_million, one.usd_per_million),
            on_frontier=one in edge,
        )
        for one in order
        if one.cluster in kept
    ]
    places = {one.cluster: index for index, one in enumerate(candidates)}
    alone, mixed = (candidates[places[one.cluster]] if one else None for one in bests)
    chosen = candidates[places[fitting[0].cluster]] if fitting else None
    shortlist = dict.fromkeys([*(one.cluster for one in fitting[:SHORTLIST]), *kept])
    even = _break_even(mixed, alone, market) if mixed and alone else None
    less = replace(workload, pipeline=workload.pipeline.cheaper_by(saves_us)) if saves_us > 0 else None
    return Plan(
        candidates=tuple(candidates),
        plane=plane,
        chosen=places[chosen.cluster] if chosen else None,
        runner_up=places[fitting[1].cluster] if len(fitting) > 1 else None,
        today=places[today],
        alone=places[alone.cluster] if alone else None,
        mixed=places[mixed.cluster] if mixed else None,
        cheaper_step_s=best_layout(less, today)[0] if less else None,
        break_even_usd_per_hour=even,
        changes=tuple(sensitivity(workload, chosen.cluster, list(shortlist), market)) if chosen else (),
        notes=(*notes, *_without_price(order)),
    )


def _without_price(order: Sequence[Rated]) -> list[str]:
    names = {
        kind.name: one.usd_per_million is not None
        for one in reversed(order)
        for kind in (one.cluster.dnn, one.cluster.data)
        if kind
    }
    if not any(names.values()):
        return ["no price is known of any of these clusters: they are ranked by time"]
    missing = sorted(name for name, priced in names.items() if not priced)
    return [f"no price is known of {', '.join(missing)}: ranked after all others"] if missing else []


def _break_even(mixed: Candidate, alone: Candidate, market: Market) -> Interval | None:
    dnn = market.usd_per_hour(ClusterShape(mixed.cluster.dnn, mixed.cluster.dnn_hosts))
    if dnn is None or alone.usd_per_million is None:
        return None
    return break_even_usd_per_hour(mixed, alone, dnn)
