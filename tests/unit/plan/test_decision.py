"""plan/decision.py, candidate.py, and advice/plan.py: what is chosen, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import plans
import pytest

from tfhet import planes
from tfhet.advice import Finding, of_plan, sentences
from tfhet.errors import UsageError
from tfhet.plan import Candidate, ClusterShape, Layout, PlanLimits, Resource, Space, make_plan, predict
from tfhet.plan.candidate import break_even_usd_per_hour

TODAY = ClusterShape(plans.GPU)
SPACE = Space([plans.GPU, plans.BIGGER], [plans.CPU], [1], 3)
PRICES = plans.USD.get


def plan(workload=None, price_of=PRICES, **more):
    return make_plan(workload or plans.workload(), TODAY, SPACE, price_of, planes.get("tf_service"), **more)


def decision(found, cheaper=()) -> list[str]:
    return sentences(of_plan(found, cheaper))


def chosen(found) -> str:
    return str(found.candidates[found.chosen].cluster)


def test_a_data_group_is_taken_where_it_pays():
    found = plan()
    assert chosen(found) == "1*ml.gpu.small+1*ml.cpu.large"
    said = decision(found)
    assert said[0].startswith("Today, 1*ml.gpu.small: 25 ms")
    assert "CPUs of the dnn hosts bind, the accelerator next" in said[0]
    assert "waits 60% of the time" in said[1]
    assert said[-1] == "Take 1*ml.gpu.small+1*ml.cpu.large: the accelerator binds."
    assert found.candidates[found.runner_up].cluster != found.candidates[found.chosen].cluster


def test_cheaper_stages_come_before_a_bigger_host_and_a_bigger_host_before_a_data_group():
    changes = [Finding("named_change", f"batch {n}", 60.0 / n) for n in (2, 1)]
    said = decision(plan(saves_us=60.0), changes)
    kinds = [line.split(":")[0].split(" the best")[0].split(" first,")[0] for line in said]
    assert kinds[2:5] == ["Cheaper stages", "Without a data group", "With a data group"]
    assert "batch 1. A step would take 10 ms at best" in said[2]


def test_stored_images_are_named_with_their_price():
    changes = [Finding("named_change", "batch", 60.0), Finding("stored_images", "store decoded images", 30.0)]
    said = decision(plan(saves_us=60.0), changes)
    assert "cost nothing: batch" in said[2] and said[3] == "Store decoded images."
    said = decision(plan(saves_us=30.0), changes[1:])
    assert "cost more disk: store decoded images" in said[2] and "Store decoded images." not in said


def test_where_the_accelerator_binds_one_stays_as_one_is():
    found = plan(plans.workload(step_ms=50.0))
    assert chosen(found) == "1*ml.gpu.small"
    assert decision(found)[-1] == "Stay with 1*ml.gpu.small: the accelerator binds."
    assert "The input keeps up" in decision(found)[1]


def test_a_bigger_host_is_taken_where_it_is_cheaper_than_a_data_group():
    found = plan(price_of={**plans.USD, "ml.gpu.large": 4.1}.get)
    assert chosen(found) == "1*ml.gpu.large"
    assert decision(found)[-1].startswith("Stay homogeneous: take 1*ml.gpu.large")


def test_at_the_break_even_price_of_a_data_host_both_cost_the_same():
    found = plan()
    price = found.break_even_usd_per_hour.value
    assert price > plans.USD["ml.cpu.large"]
    even = plan(price_of={**plans.USD, "ml.cpu.large": price}.get)
    alone = min(one.usd_per_million.value for one in even.candidates if not one.cluster.data)
    mixed = next(one for one in even.candidates if one.cluster == found.candidates[found.chosen].cluster)
    assert mixed.usd_per_million.value == pytest.approx(alone)


def test_a_data_host_that_helps_nothing_pays_at_no_price():
    needs = plans.workload(step_ms=50.0)
    one, two = (predict(needs, cluster, Layout()) for cluster in (TODAY, TODAY))
    mixed = replace(two, cluster=ClusterShape(plans.GPU, 1, plans.CPU, 1))
    even = break_even_usd_per_hour(Candidate(mixed, 5.0), Candidate(one, 4.0), PRICES)
    assert even.value == pytest.approx(0.0)
    assert "a data host pays at no price" in " ".join(decision(plan(needs)))


def test_what_a_million_examples_cost_is_the_price_of_their_time():
    one = Candidate(predict(plans.workload(), TODAY, Layout()), TODAY.usd_per_hour(PRICES))
    assert one.s_per_million.value == pytest.approx(25.0)  # 1,000 steps of 25 ms
    assert one.usd_per_million.value == pytest.approx(25.0 / 3600 * 4.0)


def test_a_deadline_that_the_cheapest_misses_costs_money():
    needs = plans.workload(step_ms=1.0)
    free, million = plan(needs), 1e9
    hours = million / 1e6 * free.candidates[free.chosen].s_per_million.value / 3600
    rushed = plan(needs, limits=PlanLimits(million, deadline_h=hours * 0.8))
    assert rushed.candidates[rushed.chosen].s_per_million.value < free.candidates[free.chosen].s_per_million.value
    assert rushed.candidates[rushed.chosen].usd_per_million.value >= free.candidates[free.chosen].usd_per_million.value
    assert not rushed.candidates[rushed.chosen].missed
    assert "takes" in rushed.candidates[rushed.today].missed[0]


def test_limits_that_nothing_keeps_leave_no_choice():
    found = plan(limits=PlanLimits(1e9, budget_usd=0.01))
    assert found.chosen is None
    assert decision(found)[-1].startswith("No cluster keeps the limits")
    assert found.to_json()["chosen"] is None


def test_a_deadline_needs_to_know_of_how_many_examples():
    with pytest.raises(UsageError, match="--examples"):
        PlanLimits(deadline_h=1.0)
    with pytest.raises(UsageError, match="--budget_usd"):
        PlanLimits(1.0, budget_usd=0.0)


def test_without_prices_the_fastest_is_taken_and_it_is_said():
    found = plan(price_of=lambda name: None)
    assert found.candidates[found.chosen].prediction.binding is Resource.ACCELERATOR
    assert "ranked by time" in found.notes[-1]
    assert found.break_even_usd_per_hour is None
    assert found.to_json()["candidates"][0]["usd_per_million_examples"] is None


def test_a_type_without_a_price_is_named_and_never_chosen():
    found = plan(price_of={"ml.gpu.small": 4.0, "ml.gpu.large": 9.0}.get)
    assert found.notes[-1] == "no price is known of ml.cpu.large: ranked after all others"
    assert not found.candidates[found.chosen].cluster.data


def test_more_ranks_are_looked_at_only_where_they_are_asked_for():
    assert {cluster.ranks for cluster in SPACE.clusters()} == {1}
    wide = Space([plans.GPU], [plans.CPU], [1, 2], 3)
    assert {str(cluster) for cluster in wide.clusters() if not cluster.data} == {"1*ml.gpu.small", "2*ml.gpu.small"}
    assert max(cluster.hosts for cluster in wide.clusters()) == 3
    with pytest.raises(UsageError, match="has 3 ranks"):
        Space([replace(plans.GPU, gpus=2)], [plans.CPU], [3], 3)


def test_the_json_of_a_plan_has_what_a_page_draws():
    found = plan().to_json()
    best = found["candidates"][found["chosen"]]
    assert best["cluster"] == {
        "text": "1*ml.gpu.small+1*ml.cpu.large",
        "dnn": "ml.gpu.small",
        "dnn_hosts": 1,
        "data": "ml.cpu.large",
        "data_hosts": 1,
    }
    assert best["binding"] == "the accelerator"
    assert best["fits"] is True
    assert best["on_frontier"] is True
    assert best["layout"]["cut"] == 1
    assert best["step_ms"]["value"] == pytest.approx(10.0)
    assert found["schema"] == 1
