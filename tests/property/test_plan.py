"""The laws of plans: what can only help never hurts, and what is said to bind does."""

from __future__ import annotations

from dataclasses import replace

import plans
import pytest
from hypothesis import assume, given, strategies as st

from tfhet import planes
from tfhet.plan import Amount, ClusterShape, Layout, MemoryNeed, Resource, Space, Where, make_plan, predict
from tfhet.plan.candidate import candidates, ranking
from tfhet.plan.ceiling import ceilings
from tfhet.plan.prediction import best_layout, demand, supply
from tfhet.record import Interval, View
from tfhet.units import GIB

SETUPS = (plans.workloads(), plans.mixed_clusters(), plans.LAYOUTS)
MORE = plans.numbers(1.0, 4.0)
SLACK = 1 + 1e-9
"""Factor that allows for errors of rounding."""


def step(workload, cluster, layout):
    return predict(workload, cluster, layout).step_s


def none_longer(after: Interval, before: Interval) -> bool:
    ends = ("value", "low", "high")
    return all(getattr(after, end) <= getattr(before, end) * SLACK for end in ends)


@plans.law(150)
@given(*SETUPS, MORE, st.sampled_from(["dnn", "data"]), st.sampled_from(["vcpus", "speed", "network_gbit_per_s"]))
def test_more_cpu_or_bandwidth_of_any_host_never_makes_a_step_longer(workload, cluster, layout, more, group, field):
    kind = getattr(cluster, group)
    old = getattr(kind, field)
    assume(old is not None)
    better = replace(kind, **{field: old.times(more) if field == "speed" else old * more})
    assert none_longer(step(workload, replace(cluster, **{group: better}), layout), step(workload, cluster, layout))


@plans.law(150)
@given(plans.workloads(), plans.mixed_clusters(), plans.SERVED, st.integers(1, 8))
def test_more_data_hosts_never_raise_any_ceiling(workload, cluster, layout, more):
    larger = replace(cluster, data_hosts=cluster.data_hosts + more)
    before, after = predict(workload, cluster, layout).ceilings_s, predict(workload, larger, layout).ceilings_s
    for resource, seconds in after.items():
        assert none_longer(seconds, before[resource]), resource


@plans.law(100)
@given(plans.workloads(), plans.mixed_clusters(), plans.SERVED, MORE)
def test_costs_that_grow_never_make_a_step_shorter(workload, cluster, layout, more):
    before = step(workload, cluster, layout)
    dearer = replace(workload, pipeline=workload.pipeline.cpu_times(more))
    assert none_longer(before, step(dearer, cluster, layout))
    cuts = tuple(replace(cut, bytes_per_example=cut.bytes_per_example * more) for cut in workload.pipeline.cuts)
    wider = replace(workload, pipeline=replace(workload.pipeline, cuts=cuts))
    assert none_longer(before, step(wider, cluster, layout))
    steps = {kind: ms.times(more) for kind, ms in workload.trainer.accelerator_ms.items()}
    slower = replace(workload, trainer=replace(workload.trainer, accelerator_ms=steps))
    assert none_longer(before, step(slower, cluster, layout))


@plans.law(150)
@given(*SETUPS)
def test_the_expected_step_lies_in_its_interval_and_is_the_longest_ceiling(workload, cluster, layout):
    found = predict(workload, cluster, layout)
    assert found.step_s.value == max(each.value for each in found.ceilings_s.values())
    assert found.ceilings_s[found.binding].value == found.step_s.value
    for view in View:
        each = ceilings(demand(workload, cluster, layout, view), supply(workload, cluster, layout, view), layout.where)
        assert found.step_s.low <= max(each.values()) * SLACK
        assert max(each.values()) <= found.step_s.high * SLACK


@plans.law(300)
@given(*SETUPS, plans.numbers(1.01, 3.0))
def test_relaxing_the_binding_resource_shortens_the_step_and_relaxing_the_runner_up_does_not(
    workload, cluster, layout, factor
):
    found = predict(workload, cluster, layout)
    first, second = (found.ceilings_s[each].value for each in (found.binding, found.runner_up))
    assume(first > 1.001 * second)  # of two that bind alike, either alone shortens nothing
    needs, has = demand(workload, cluster, layout), supply(workload, cluster, layout)

    def with_more(resource: Resource) -> float:
        return max(ceilings(*plans.relaxed(needs, has, resource, factor), layout.where).values())

    assert with_more(found.binding) < first
    shared = {Resource.ALL_CPUS, Resource.DNN_CPUS, Resource.DATA_NETWORK, Resource.DNN_NETWORK}
    if layout.where is not Where.EVERYWHERE or not {found.binding, found.runner_up} <= shared:
        assert with_more(found.runner_up) == pytest.approx(first)


@plans.law(100)
@given(plans.workloads(), plans.mixed_clusters(), plans.numbers(0.001, 1000.0))
def test_the_cpu_of_reference_changes_nothing(workload, cluster, unit):
    """Costs counted on a CPU half as fast are twice as high, and every host is twice as fast against it."""
    costs = workload.plane_costs

    def wire(batch_bytes):
        found = costs.wire(batch_bytes)
        return replace(
            found,
            reader_s_per_gb=found.reader_s_per_gb.times(unit),
            server_s_per_gb=found.server_s_per_gb.times(unit),
            gb_per_s=found.gb_per_s.times(1 / unit),
        )

    trainer = replace(workload.trainer, cpu_ms=workload.trainer.cpu_ms.times(unit))
    scaled = replace(
        workload, pipeline=workload.pipeline.cpu_times(unit), trainer=trainer, plane_costs=replace(costs, wire=wire)
    )
    kinds = {
        group: replace(getattr(cluster, group), speed=getattr(cluster, group).speed.times(unit))
        for group in ("dnn", "data")
    }
    before, after = best_layout(workload, cluster), best_layout(scaled, replace(cluster, **kinds))
    assert after[0] == pytest.approx(before[0])


CLUSTERS = [
    ClusterShape(plans.GPU),
    ClusterShape(plans.BIGGER),
    *(ClusterShape(plans.GPU, 1, plans.CPU, count) for count in (1, 2, 3)),
]
PRICES = st.fixed_dictionaries({name: plans.numbers(0.01, 50.0) for name in plans.USD})


@plans.law(80)
@given(plans.workloads(), PRICES, st.sampled_from(sorted(plans.USD)), plans.numbers(0.1, 1.0))
def test_a_cheaper_price_never_makes_the_choice_dearer(workload, usd, name, part):
    before = ranking(candidates(workload, CLUSTERS, usd.get))[0]
    after, *others = ranking(candidates(workload, CLUSTERS, {**usd, name: usd[name] * part}.get))
    assert all(after.usd_per_million.value <= one.usd_per_million.value * SLACK for one in others)
    assert after.usd_per_million.value <= before.usd_per_million.value * SLACK


@plans.law(80)
@given(plans.workloads(), PRICES, plans.numbers(0.01, 100.0))
def test_counting_money_in_another_currency_leaves_the_choice(workload, usd, rate):
    found = candidates(workload, CLUSTERS, usd.get)
    best, second = (one.usd_per_million.value for one in ranking(found)[:2])
    assume(second > best * (1 + 1e-6))
    other = {name: rate * price for name, price in usd.items()}.get
    assert ranking(candidates(workload, CLUSTERS, other))[0].cluster == ranking(found)[0].cluster


@plans.law(80)
@given(plans.workloads(), PRICES)
def test_more_clusters_to_choose_from_never_make_the_choice_dearer(workload, usd):
    few = ranking(candidates(workload, CLUSTERS[:2], usd.get))[0]
    many = ranking(candidates(workload, CLUSTERS, usd.get))[0]
    assert many.usd_per_million.value <= few.usd_per_million.value * SLACK


@plans.law(25)
@given(plans.workloads(), PRICES)
def test_a_plan_chooses_the_cheapest_and_its_frontier_beats_all_that_it_shows(workload, usd):
    space = Space([plans.GPU, plans.BIGGER], [plans.CPU], [1], 3)
    plan = make_plan(workload, ClusterShape(plans.GPU), space, usd.get, planes.get("local"))
    costs = [one.usd_per_million.value for one in plan.candidates]
    assert costs[plan.chosen] <= min(costs) * SLACK
    assert plan.candidates[plan.chosen].on_frontier
    edge = [one for one in plan.candidates if one.on_frontier]
    for one in plan.candidates:
        assert any(
            each.usd_per_million.value <= one.usd_per_million.value * SLACK
            and each.s_per_million.value <= one.s_per_million.value * SLACK
            for each in edge
        )


def amounts(most: float) -> st.SearchStrategy[Amount | None]:
    return st.none() | numbers_of_bytes(most).map(Amount.measured)


def numbers_of_bytes(most: float) -> st.SearchStrategy[float]:
    return plans.numbers(0.0, most * GIB)


MEMORY = st.builds(
    MemoryNeed,
    rank=amounts(80),
    shared=amounts(20),
    gpu=amounts(30),
    data_host=amounts(80),
    data_hosts=st.integers(0, 4),
    servers=st.integers(1, 8),
    is_on_dnn=st.booleans(),
)
SIZED = Space(
    [
        replace(plans.GPU, memory_bytes=16 * GIB, gpu_memory_bytes=16 * GIB),
        replace(plans.BIGGER, memory_bytes=64 * GIB, gpu_memory_bytes=24 * GIB),
    ],
    [replace(plans.CPU, memory_bytes=32 * GIB)],
    [1, 2],
    4,
)


def sized_plan(workload, usd, need):
    return make_plan(
        replace(workload, memory=need), ClusterShape(SIZED.dnn[0]), SIZED, usd.get, planes.get("tf_service")
    )


@plans.law(40)
@given(plans.workloads(), PRICES, MEMORY)
def test_each_chosen_cluster_has_the_memory_that_is_needed(workload, usd, need):
    plan = sized_plan(workload, usd, need)
    for index in {plan.chosen, plan.runner_up, plan.alone, plan.mixed} - {None}:
        one = plan.candidates[index]
        assert need.fits(one.cluster, one.prediction.layout) and not one.misfits
        if need.rank is not None:
            assert one.cluster.dnn.memory_bytes >= need.rank.needed * one.cluster.dnn.ranks
    for index in plan.too_small:
        one = plan.candidates[index]
        assert not need.fits(one.cluster, one.prediction.layout) and one.missed
    for one in plan.candidates:
        assert not (one.on_frontier and one.misfits)


@plans.law(40)
@given(plans.workloads(), PRICES, MEMORY, MORE)
def test_more_measured_memory_never_yields_a_smaller_or_cheaper_choice(workload, usd, need, more):
    assume(need.rank is not None)
    before = sized_plan(workload, usd, need)
    after = sized_plan(workload, usd, replace(need, rank=need.rank.times(more)))
    if after.chosen is None:
        return
    assert before.chosen is not None
    old, new = before.candidates[before.chosen], after.candidates[after.chosen]
    assert new.usd_per_million.value >= old.usd_per_million.value / SLACK
    by_rank = [each.cluster.dnn.memory_bytes / each.cluster.dnn.ranks for each in (old, new)]
    if not need.data_host:  # else the choice may be a cluster whose data hosts keep a part in memory
        assert by_rank[0] <= by_rank[1]


@plans.law(100)
@given(plans.numbers(-10, 10), plans.numbers(-10, 10), plans.numbers(-10, 10))
def test_an_interval_is_ordered_and_not_negative_or_is_refused(value, low, high):
    if 0 <= low <= value <= high:
        assert Interval(value, low, high).demand(View.WORST) == high
    else:
        with pytest.raises(ValueError, match="wanted 0 <= low <= value <= high"):
            Interval(value, low, high)


def test_the_layout_without_data_hosts_moves_nothing():
    found = predict(plans.workload(), ClusterShape(plans.GPU), Layout())
    assert set(found.ceilings_s) == {Resource.ACCELERATOR, Resource.DNN_CPUS, Resource.SOURCE}
