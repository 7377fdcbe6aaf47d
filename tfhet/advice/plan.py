"""What a plan comes to: what holds today's cluster back, what each kind of change would do, and which to take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfhet.advice.finding import Fact, Finding, Severity, advice, fact
from tfhet.advice.input_bound import InputState, state_by_wait
from tfhet.advice.thresholds import LEAST_BREAK_EVEN_USD
from tfhet.plan import Candidate, Interval, Plan, Resource


def of_plan(plan: Plan, cheaper: Sequence[Finding] = ()) -> list[Finding]:
    """The findings of a plan, in the order in which one decides. The last one is the choice.

    cheaper: what would make the stages cheaper, as `of_pipeline` finds it; the plan was made with the best of them.
    """
    chosen = None if plan.chosen is None else plan.candidates[plan.chosen]
    return [
        *_today(plan, cheaper),
        *_best(plan),
        choice_of(
            None if chosen is None else str(chosen.cluster),
            binding=plan.name_of(chosen.prediction.binding) if chosen else "",
            has_data=bool(chosen and chosen.cluster.data),
            is_today=plan.chosen == plan.today,
        ),
    ]


def choice_of(cluster: str | None, *, binding: str, has_data: bool, is_today: bool) -> Finding:
    """The choice of a cluster by its name, None where no cluster keeps the limits. binding: the resource that binds."""
    if cluster is None:
        return Finding("none_fits", Severity.PROBLEM)
    kind = "stay" if is_today else "take" if has_data else "take_homogeneous"
    return advice(kind, cluster=cluster, binding=binding)


def _today(plan: Plan, cheaper: Sequence[Finding]) -> Iterator[Finding]:
    prediction = plan.candidates[plan.today].prediction
    accelerator = prediction.ceilings_s[Resource.ACCELERATOR]
    wait_pct = 100.0 * max(0.0, 1.0 - accelerator.value / prediction.step_s.value)
    state = state_by_wait(wait_pct)
    facts = _cluster(plan.candidates[plan.today])
    yield fact("today", binding=plan.name_of(prediction.binding), runner_up=plan.name_of(prediction.runner_up), **facts)
    if state is InputState.NOT:
        yield fact("prediction_keeps_up", wait_pct=wait_pct)
        return
    yield Finding("prediction_waits", state.severity, {"wait_pct": wait_pct, **_step(accelerator)})
    best = max(cheaper, key=lambda finding: finding.saves_us, default=None)
    if best and best.saves_us > 0 and plan.cheaper_step_s is not None:
        yield advice("cheaper_stages", step_ms=1e3 * plan.cheaper_step_s).quoting(best).saving(best.saves_us)
    else:
        yield fact("no_cheaper_stages")


def _best(plan: Plan) -> Iterator[Finding]:
    today = plan.candidates[plan.today]
    alone, mixed = (None if index is None else plan.candidates[index] for index in (plan.alone, plan.mixed))
    if alone:
        is_today = plan.alone == plan.today
        facts = {} if is_today else {**_cluster(alone), **_against(alone, today)}
        yield fact("today_is_best_homogeneous" if is_today else "best_homogeneous", **facts)
    if mixed is None:
        yield fact("no_data_group_fits")
        return
    even = plan.break_even_usd_per_hour
    pays = even is not None and even.value >= LEAST_BREAK_EVEN_USD
    yield fact(
        "best_with_data",
        break_even_usd=even.value if even and pays else None,
        never_pays=even is not None and not pays,
        **_cluster(mixed),
        **_against(mixed, alone or today),
    )


def _step(seconds: Interval) -> dict[str, Fact]:
    return {"step_ms": 1e3 * seconds.value, "low_ms": 1e3 * seconds.low, "high_ms": 1e3 * seconds.high}


def _cluster(one: Candidate) -> dict[str, Fact]:
    """A cluster with its step and its cost."""
    usd = one.usd_per_million.value if one.usd_per_million else None
    return {
        "cluster": str(one.cluster),
        "examples": one.prediction.examples,
        "usd": usd,
        **_step(one.prediction.step_s),
    }


def _against(one: Candidate, other: Candidate) -> dict[str, Fact]:
    """How much more money, or time where a price is not known, `one` takes than `other`."""
    mine, its = one.usd_per_million, other.usd_per_million
    ours, theirs = (mine, its) if mine and its else (one.s_per_million, other.s_per_million)
    return {
        "change_pct": 100.0 * (ours.value / theirs.value - 1),
        "unit": "cost" if mine and its else "time",
        "other": str(other.cluster),
        "is_within_error": not (ours.high < theirs.low or ours.low > theirs.high),
    }
