"""report/plan_view.py: a plan on a page, and beside what was measured."""

from __future__ import annotations

import json
from typing import Any

import plans
import pytest

from tfhet import planes
from tfhet.advice import of_plan, sentence
from tfhet.errors import DataError, UsageError
from tfhet.plan import ClusterShape, Market, Space, make_plan
from tfhet.record import RunSummary, Spread, json_value
from tfhet.report.plan_view import projected, read_plan


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


def test_a_page_lists_the_clusters_with_a_role_and_then_the_rest_of_the_frontier() -> None:
    edge = candidate(1.0, 1.0, on_frontier=True)
    found = read_plan(plan(edge, candidate(2.0, 2.0), candidate(3.0, 3.0), edge, chosen=2, today=2))
    assert found.listed == [2, 0, 3] and found.roles == {2: "chosen, today"}


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
    made = make_plan(plans.workload(), ClusterShape(plans.GPU), space, Market(plans.USD.get), planes.get("tf_service"))
    choice = of_plan(made)[-1]
    found = read_plan(json.loads(json.dumps(json_value(made.to_json() | {"decision": [sentence(choice)]}))))
    chosen = next(index for index, role in found.roles.items() if "chosen" in role)
    assert found.candidates[chosen]["text"] == str(made.candidates[made.chosen].cluster)
    assert found.choice == choice and found.decision == (sentence(choice),)
    assert found.notes == made.notes
    assert {"dnn ml.gpu.small": 1, "data ml.cpu.large": 1} in [one["hosts"] for one in found.candidates]


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
