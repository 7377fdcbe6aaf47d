"""report/frontier.py: a plan as a plot, and compared with runs."""

from __future__ import annotations

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


def test_faster_is_right_and_cheaper_is_lower() -> None:
    slow, fast = candidate(100.0, 2.0, on_frontier=True), candidate(200.0, 5.0, on_frontier=True)
    chart = frontier_chart(read_plan(plan(slow, fast)))
    first, second = sorted(chart.marks, key=lambda mark: mark["number"])
    (left, low), (right, high) = place(chart, first), place(chart, second)
    assert left < right and low < high
    assert (first["role"], first["number"], first["side"]) == ("chosen, today", 1, "lower right")
    assert second["side"] == "upper left", "names stay inside the plot"


def test_plan_without_prices_has_no_plot() -> None:
    assert frontier_chart(read_plan(plan(candidate(1.0, None), candidate(2.0, None)))) is None


def run(step_ms: float, **cluster: tuple[str, str, int]) -> RunSummary:
    groups = {
        name: {"role": role, "instance_type": kind, "hosts": [f"{name}-{i}" for i in range(count)]}
        for name, (role, kind, count) in cluster.items()
    }
    return RunSummary(cluster=groups, step_ms=Spread(step_ms, step_ms, step_ms))


def test_runs_are_compared_with_their_own_cluster() -> None:
    mixed = candidate(1.0, 1.0)
    mixed["cluster"] = {"text": "m", "dnn": "big", "dnn_hosts": 1, "data": "small", "data_hosts": 2}
    runs = {
        "near": run(105.0, a=("dnn", "big", 1), b=("data", "small", 2)),
        "far": run(150.0, a=("dnn", "big", 1)),
        "other": run(100.0, a=("dnn", "big", 2)),
    }
    found = projected(read_plan(plan(candidate(1.0, 1.0), mixed)), runs)
    names = [(name, one["text"], measured.median) for name, one, measured in found]
    assert names == [("near", "m", 105.0), ("far", "a", 150.0)]


def test_written_plan_is_read() -> None:
    space = Space([plans.GPU, plans.BIGGER], [plans.CPU], [1], 3)
    made = make_plan(plans.workload(), ClusterShape(plans.GPU), space, plans.USD.get, planes.get("tf_service"))
    choice = sentence(of_plan(made)[-1])
    found = read_plan(json.loads(json.dumps(json_value(made.to_json() | {"decision": [choice]}))))
    assert found.candidates[found.chosen]["text"] == str(made.candidates[made.chosen].cluster)
    assert (found.decision, found.notes) == ((choice,), made.notes)
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
        {"schema": 2},
    ],
)
def test_what_is_no_plan_is_refused(change) -> None:
    with pytest.raises(UsageError if "schema" in change else DataError, match="plan (in )?here"):
        read_plan({**plan(candidate(1.0, 1.0)), **change}, "here")


NUMBER = st.floats(min_value=0.0, max_value=1e299)


@given(st.lists(st.tuples(NUMBER, NUMBER, st.booleans()), min_size=1, max_size=6))
def test_no_mark_leaves_the_plot(values) -> None:
    made = [candidate(speed, usd, on_frontier=edge) for speed, usd, edge in values]
    chart = frontier_chart(read_plan(plan(*made)))
    for mark in chart.marks if chart else ():
        speed, usd = mark["examples_per_s"], mark["usd_per_million_examples"]
        for axis, value in ((chart.across, speed.value), (chart.upward, usd.value)):
            assert axis.low <= value <= axis.high and 0 <= axis.at(value) <= 100
