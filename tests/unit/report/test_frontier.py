"""report/frontier.py: a plan as a plot, and beside what was measured."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import plans
import pytest
from hypothesis import given, strategies as st

from tfhet import planes
from tfhet.advice import of_plan, sentence
from tfhet.errors import DataError, UsageError
from tfhet.plan import ClusterShape, Space, make_plan
from tfhet.record import RunSummary, Spread, json_value
from tfhet.report.frontier import FrontierChart, frontier_chart, projected, read_plan


def candidate(speed: float, usd: float | None, **changes: Any) -> dict[str, Any]:
    def around(value: float) -> dict[str, float]:
        return {"value": value, "low": value * 0.9, "high": value * 1.1}

    return {
        "cluster": {"text": "a", "dnn": "big", "dnn_hosts": 1, "data": None, "data_hosts": 0},
        "step_ms": around(100.0),
        "examples_per_s": around(speed),
        "usd_per_million_examples": None if usd is None else around(usd),
        "on_frontier": False,
        **changes,
    }


def plan(*candidates: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"schema": 1, "candidates": list(candidates), "chosen": 0, "runner_up": None, "today": 0, **changes}


def place(chart: FrontierChart, mark: dict[str, Any]) -> tuple[float, float]:
    speed, usd = mark["examples_per_s"], mark["usd_per_million_examples"]
    return chart.across.at(speed.value), chart.upward.at(usd.value)


def test_faster_lies_to_the_right_and_cheaper_lower() -> None:
    slow, fast = candidate(100.0, 2.0, on_frontier=True), candidate(200.0, 5.0, on_frontier=True)
    chart = frontier_chart(read_plan(plan(slow, fast)))
    first, second = sorted(chart.marks, key=lambda mark: mark["number"])
    (left, low), (right, high) = place(chart, first), place(chart, second)
    assert left < right and low < high
    assert first["role"] == "chosen, today" and first["number"] == 1
    speed = first["examples_per_s"]
    assert chart.across.at(speed.low) < left < chart.across.at(speed.high)
    assert first["on_frontier"] and second["on_frontier"]


def test_the_names_of_roles_stand_where_they_cover_nothing() -> None:
    """The chosen one lies below the runner-up, close by: its name goes down, the other's up."""
    cheap, dear = candidate(190.0, 2.0), candidate(200.0, 2.2)
    slow = candidate(100.0, 5.0)
    chart = frontier_chart(read_plan(plan(cheap, dear, slow, candidate(150.0, 4.0), runner_up=1, today=2)))
    assert chart is not None
    assert chart.sides(800, 320) == {1: "lower right", 2: "upper right", 3: "upper right"}
    cramped = [{**mark, "text": "a cluster of many letters"} for mark in chart.marks]
    names = dataclasses.replace(chart, marks=cramped).sides(800, 320)
    assert names == {1: "lower right", 2: "upper left", 3: "upper right"}
    assert dataclasses.replace(chart, marks=cramped).sides(150, 320) == {}


def test_without_prices_there_is_no_plot() -> None:
    assert frontier_chart(read_plan(plan(candidate(1.0, None), candidate(2.0, None)))) is None


def run(step_ms: float, **cluster: tuple[str, str, int]) -> RunSummary:
    groups = {
        name: {"role": role, "instance_type": kind, "hosts": [f"{name}-{i}" for i in range(count)]}
        for name, (role, kind, count) in cluster.items()
    }
    return RunSummary(cluster=groups, step_ms=Spread(step_ms, step_ms, step_ms))


def test_a_run_stands_beside_what_its_own_cluster_was_projected() -> None:
    mixed = candidate(1.0, 1.0)
    mixed["cluster"] = {"text": "m", "dnn": "big", "dnn_hosts": 1, "data": "small", "data_hosts": 2}
    found = projected(
        read_plan(plan(candidate(1.0, 1.0), mixed)),
        {
            "near": run(105.0, a=("dnn", "big", 1), b=("data", "small", 2)),
            "far": run(150.0, a=("dnn", "big", 1)),
            "other": run(100.0, a=("dnn", "big", 2)),
        },
    )
    assert [(name, one["text"], measured.median) for name, one, measured in found] == [
        ("near", "m", 105.0),
        ("far", "a", 150.0),
    ]


def test_what_a_plan_writes_is_read() -> None:
    space = Space([plans.GPU, plans.BIGGER], [plans.CPU], [1], 3)
    made = make_plan(plans.workload(), ClusterShape(plans.GPU), space, plans.USD.get, planes.get("tf_service"))
    choice = of_plan(made)[-1]
    found = read_plan(json.loads(json.dumps(json_value(made.to_json() | {"decision": [sentence(choice)]}))))
    chosen = next(index for index, role in found.roles.items() if "chosen" in role)
    assert found.candidates[chosen]["text"] == str(made.candidates[made.chosen].cluster)
    assert found.decision == (sentence(choice),)
    assert found.notes == made.notes
    assert {"dnn ml.gpu.small": 1, "data ml.cpu.large": 1} in [one["hosts"] for one in found.candidates]
    assert frontier_chart(found) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"candidates": None},
        {"candidates": [{}]},
        {"candidates": [candidate(1.0, 1.0, step_ms={"value": "NaN", "low": 0, "high": 0})]},
        {"candidates": [candidate(1.0, 1.0, step_ms={"value": True, "low": 0, "high": 0})]},
        {"candidates": [candidate(-1.0, 1.0)]},
        {"candidates": [candidate(1.0, 1.0, cluster="big")]},
        {"chosen": 7},
        {"chosen": "first"},
        {"decision": 3},
    ],
)
def test_what_is_no_plan_is_told_so(change) -> None:
    with pytest.raises(DataError, match="plan here: cannot be read"):
        read_plan({**plan(candidate(1.0, 1.0)), **change}, "here")


def test_a_plan_of_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="plan in here has schema 2"):
        read_plan({**plan(candidate(1.0, 1.0)), "schema": 2}, "here")


NUMBER = st.floats(min_value=0.0, max_value=1e299)


@given(st.lists(st.tuples(NUMBER, NUMBER, st.booleans()), min_size=1, max_size=6))
def test_no_mark_lies_outside_the_plot(values) -> None:
    made = copy.deepcopy([candidate(speed, usd, on_frontier=edge) for speed, usd, edge in values])
    chart = frontier_chart(read_plan(plan(*made)))
    for mark in chart.marks if chart else ():
        speed, usd = mark["examples_per_s"], mark["usd_per_million_examples"]
        for axis, value in ((chart.across, speed.value), (chart.upward, usd.value)):
            assert axis.low <= value <= axis.high and 0 <= axis.at(value) <= 100
    for width in (100, 900) if chart else ():
        assert set(chart.sides(width, 320)) <= {mark["number"] for mark in chart.marks if mark["role"]}
