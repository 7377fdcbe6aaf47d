"""From measurements and prices to a decision: cheaper stages, a bigger host, a data group, or none of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tfhet.plan.ceiling import Resource
from tfhet.plan.host import Cluster
from tfhet.plan.interval import Interval
from tfhet.plan.money import Candidate, Limits, Market, break_even_usd_per_hour
from tfhet.plan.prediction import best_layout
from tfhet.plan.result import Plan
from tfhet.plan.search import Rated, Space, candidate, frontier, ranking, rated
from tfhet.plan.sensitivity import sensitivity
from tfhet.plan.workload import Workload

SHOWN = 8
"""Candidates that are kept beside the frontier, today's, and the best with and without data hosts."""
SHORTLIST = 40
"""Clusters among which the choice is looked for again when an input moves."""

NO_LIMITS = Limits()
LEAST_USD = 0.001
"""Per hour: a lower break-even price is none."""


@dataclass(frozen=True)
class Cheaper:
    """A change of the stages, as a profile advises it."""

    text: str
    saves_us: float
    """CPU microseconds per example that it may save, at most."""


def make_plan(
    workload: Workload,
    today: Cluster,
    space: Space,
    market: Market,
    *,
    limits: Limits = NO_LIMITS,
    cheaper: Sequence[Cheaper] = (),
    notes: Sequence[str] = (),
) -> Plan:
    """Rates today's cluster and every one of the space, and decides. Raises UsageError for inputs that do not fit."""
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
    reasons = _reasons(workload, candidates[places[today]], alone, mixed, cheaper, market, even)
    return Plan(
        candidates=tuple(candidates),
        chosen=places[chosen.cluster] if chosen else None,
        runner_up=places[fitting[1].cluster] if len(fitting) > 1 else None,
        today=places[today],
        break_even_usd_per_hour=even,
        changes=tuple(sensitivity(workload, chosen.cluster, list(shortlist), market)) if chosen else (),
        decision=(*reasons, _verdict(chosen, today)),
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
    return [f"no price is known of {', '.join(missing)}: ranked behind all others"] if missing else []


def _break_even(mixed: Candidate, alone: Candidate, market: Market) -> Interval | None:
    dnn = market.usd_per_hour(Cluster(mixed.cluster.dnn, mixed.cluster.dnn_hosts))
    if dnn is None or alone.usd_per_million is None:
        return None
    return break_even_usd_per_hour(mixed, alone, dnn)


def _reasons(
    workload: Workload,
    today: Candidate,
    alone: Candidate | None,
    mixed: Candidate | None,
    cheaper: Sequence[Cheaper],
    market: Market,
    even: Interval | None,
) -> Iterator[str]:
    """What holds today's cluster back, then what each kind of change would do, the cheapest kind first."""
    prediction = today.prediction
    accelerator = prediction.ceilings_s[Resource.ACCELERATOR]
    binds = f"{prediction.binding.value} bind{_s(prediction.binding)}"
    yield f"Today, {told(today)}: {binds}, {prediction.runner_up.value} next."
    if prediction.binding is Resource.ACCELERATOR:
        yield "The input keeps up with the accelerator: neither cheaper stages nor more CPUs shorten a step."
    else:
        waits = 1 - accelerator.value / prediction.step_s.value
        yield f"The accelerator could do a step in {_ms(accelerator)}: it waits {waits:.0%} of the time."
        best = max(cheaper, key=lambda each: each.saves_us, default=None)
        if best and best.saves_us > 0:
            less = replace(workload, pipeline=workload.pipeline.cheaper_by(best.saves_us))
            step_ms = 1e3 * best_layout(less, today.cluster)[0]
            yield f"Cheaper stages first, they cost nothing: {best.text}. A step would take {step_ms:.3g} ms at best."
        else:
            yield "Cheaper stages: the profile knows of none."
    if alone and alone.cluster != today.cluster:
        yield f"Without a data group the best is {told(alone)}{_against(alone, today)}."
    elif alone:
        yield "No other cluster without a data group is better."
    if mixed:
        limit = ""
        if even:
            pays = f"below {even.value:.3g} USD per hour" if even.value >= LEAST_USD else "at no price"
            limit = f"; a data host pays {pays}"
        yield f"With a data group the best is {told(mixed)}{_against(mixed, alone or today)}{limit}."
    else:
        yield "With a data group: none keeps the limits."


def _verdict(chosen: Candidate | None, today: Cluster) -> str:
    if chosen is None:
        return "No cluster keeps the limits: allow more time, money or hosts."
    binding = chosen.prediction.binding
    why = f"{binding.value} bind{_s(binding)}"
    if chosen.cluster == today:
        return f"Stay with {chosen.cluster}: {why}."
    group = "take" if chosen.cluster.data else "stay homogeneous: take"
    return f"So {group} {chosen.cluster}: {why}."


def told(one: Candidate) -> str:
    """A cluster with its step and its cost."""
    usd = one.usd_per_million
    money = f", {usd.value:.3g} USD per million examples" if usd else ""
    return f"{one.cluster}: {_ms(one.prediction.step_s)} a step of {one.prediction.examples} examples{money}"


def _against(one: Candidate, other: Candidate) -> str:
    mine, its = one.usd_per_million, other.usd_per_million
    unit = "cost" if mine and its else "time"
    ours, theirs = (mine, its) if mine and its else (one.s_per_million, other.s_per_million)
    change = ours.value / theirs.value - 1
    sure = "" if ours.high < theirs.low or ours.low > theirs.high else ", within the error"
    return f" ({change:+.0%} {unit} against {other.cluster}{sure})"


def _ms(seconds: Interval) -> str:
    step = seconds.times(1e3)
    return f"{step.value:.3g} ms ({step.low:.3g} to {step.high:.3g})"


def _s(resource: Resource) -> str:
    plural = (Resource.DNN_CPUS, Resource.DATA_CPUS, Resource.ALL_CPUS, Resource.REQUESTS)
    return "" if resource in plural else "s"
