"""Findings of a plan: the limit of today's cluster, the effect of each kind of change, and the choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfhet.advice.finding import Finding
from tfhet.advice.input_bound import InputState, state_by_wait
from tfhet.advice.pipeline import STORED
from tfhet.plan import EBS, Candidate, Plan, Resource, disagreement
from tfhet.record import Interval

LEAST_BREAK_EVEN_USD = 0.001
"""USD per hour: with a lower break-even price a data host pays at no price."""


def of_plan(plan: Plan, cheaper: Sequence[Finding] = ()) -> list[Finding]:
    """Returns the findings of a plan; the last one is the choice. cheaper: changes of stages, from `of_pipeline`."""
    return [*_run(plan), *_today(plan, cheaper), *_best(plan), *_too_small(plan), _choice(plan)]


def _choice(plan: Plan) -> Finding:
    if plan.chosen is None:
        if plan.too_small and all(one.misfits for one in plan.candidates):
            lacking = dict.fromkeys(misfit.kind for one in plan.candidates for misfit in one.misfits)
            types = "name larger types with --dnn and --data"
            larger = "state a larger --volume_gib" if lacking.keys() == {EBS} else types
            return Finding("all_too_small", f"no cluster has enough {' and '.join(lacking)}: {larger}")
        return Finding("none_fits", "no cluster keeps the limits: allow more time, money or hosts")
    chosen = plan.candidates[plan.chosen]
    binds = _binds(chosen.prediction.binding.value)
    if plan.chosen == plan.today:
        return Finding("stay", f"stay with {chosen.cluster}: {binds}")
    take = f"take {chosen.cluster}: {binds}"
    return Finding("take", take) if chosen.cluster.data else Finding("take_homogeneous", f"stay homogeneous: {take}")


def _run(plan: Plan) -> Iterator[Finding]:
    """Yields the contradiction between the run and the prediction for its cluster, if there is one."""
    if plan.agreement is None or plan.agreement.holds:
        return
    if plan.agreement.counted is None:
        simulated = "the CPUs of simulated hosts are not the CPUs of the cluster"
        why = simulated if plan.agreement.is_simulated else "the run recorded no wait that explains it"
        clause = f"{disagreement(plan.agreement)}; the plan counts the profile, because {why}"
        yield Finding("prediction_not_comparable", clause)
    else:
        counts = f"this plan counts {plan.agreement.counted:.3g} times the profiled CPU, as the run measured"
        cause = (
            "find the cause first with `tfhet report`: it may be the settings of the reader, or a profile of other data"
        )
        yield Finding("prediction_disagrees", f"{disagreement(plan.agreement)}; {counts}; {cause}")


def _too_small(plan: Plan) -> Iterator[Finding]:
    """Yields the clusters that would be chosen, or nearly, if they had more memory or disk."""
    for one in (plan.candidates[index] for index in plan.too_small):
        usd = f"cost {one.usd_per_million.value:.3g} USD per million examples" if one.usd_per_million else "do"
        why = ", and ".join(map(str, one.misfits))
        yield Finding("too_small", f"{one.cluster} would {usd}, but {why}")


def _today(plan: Plan, cheaper: Sequence[Finding]) -> Iterator[Finding]:
    today = plan.candidates[plan.today]
    prediction = today.prediction
    accelerator = prediction.ceilings_s[Resource.ACCELERATOR]
    wait_pct = 100.0 * max(0.0, 1.0 - accelerator.value / prediction.step_s.value)
    limits = f"{_binds(prediction.binding.value)}, {prediction.runner_up.value} next"
    yield Finding("today", f"today, {_cluster(today)}: {limits}")
    if state_by_wait(wait_pct) is InputState.NOT:
        neither = "neither cheaper stages nor more CPUs shorten a step"
        yield Finding("prediction_keeps_up", f"the input keeps up with the accelerator: {neither}")
        yield from _run_waited(plan, today)
        return
    waits = f"the accelerator could do a step in {_step(accelerator)}: it waits {wait_pct:.0f}% of the time"
    yield Finding("prediction_waits", waits)
    if state_by_wait(wait_pct) is not InputState.BOUND:
        yield from _run_waited(plan, today)
    best = max(cheaper, key=lambda finding: finding.saves_us, default=None)
    disk = next((finding for finding in cheaper if finding.kind == STORED), None)
    if best and best.saves_us > 0 and plan.cheaper_step_s is not None:
        at_best = f"A step would take {1e3 * plan.cheaper_step_s:.3g} ms at best"
        price = "more disk" if best is disk else "nothing"
        first = f"cheaper stages first, they cost {price}: {best.clause}. {at_best}"
        yield Finding("cheaper_stages", first, best.saves_us)
    else:
        yield Finding("no_cheaper_stages", "cheaper stages: the profile knows of none")
    if disk is not None and disk is not best:
        yield disk


def _run_waited(plan: Plan, today: Candidate) -> Iterator[Finding]:
    """Yields the wait of the run, if it contradicts a prediction without one."""
    if state_by_wait(plan.waited_pct) is InputState.BOUND:
        where = f", on {plan.agreement.cluster}" if plan.agreement else ""
        waited = f"the run itself waited {plan.waited_pct:.0f}% of the time for data{where}"
        yield Finding("run_waited", f"{waited}: only a run on {today.cluster} shows that it does not wait there")


def _best(plan: Plan) -> Iterator[Finding]:
    today = plan.candidates[plan.today]
    alone, mixed = (None if index is None else plan.candidates[index] for index in (plan.alone, plan.mixed))
    if alone and plan.alone == plan.today:
        yield Finding("today_is_best_homogeneous", "no other cluster without a data group is better")
    elif alone:
        best = f"without a data group the best is {_cluster(alone)} ({_against(alone, today)})"
        yield Finding("best_homogeneous", best)
    if mixed is None:
        yield Finding("no_data_group_fits", "with a data group: none keeps the limits")
        return
    pays = ""
    if (even := plan.break_even_usd_per_hour) is not None:
        is_worth = even.value >= LEAST_BREAK_EVEN_USD
        pays = f"; a data host pays {f'below {even.value:.3g} USD per hour' if is_worth else 'at no price'}"
    best = f"with a data group the best is {_cluster(mixed)} ({_against(mixed, alone or today)}){pays}"
    yield Finding("best_with_data", best)


def _binds(resource: str) -> str:
    return f"{resource} {'bind' if resource.split()[0].endswith('s') else 'binds'}"


def _step(seconds: Interval) -> str:
    return f"{1e3 * seconds.value:.3g} ms ({1e3 * seconds.low:.3g} to {1e3 * seconds.high:.3g})"


def _cluster(one: Candidate) -> str:
    usd = f", {one.usd_per_million.value:.3g} USD per million examples" if one.usd_per_million else ""
    prediction = one.prediction
    return f"{one.cluster}: {_step(prediction.step_s)} a step of {prediction.examples} examples{usd}"


def _against(one: Candidate, other: Candidate) -> str:
    """Returns how much more money, or time if a price is unknown, `one` takes than `other`."""
    mine, its = one.usd_per_million, other.usd_per_million
    unit = "cost" if mine and its else "time"
    ours, theirs = (mine, its) if mine and its else (one.s_per_million, other.s_per_million)
    error = "" if ours.high < theirs.low or ours.low > theirs.high else ", within the error"
    return f"{100.0 * (ours.value / theirs.value - 1):+.0f}% {unit} against {other.cluster}{error}"
