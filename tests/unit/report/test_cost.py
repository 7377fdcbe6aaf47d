"""report/cost.py: the cost of a step, and of each part of a pipeline."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tfhet import catalogue
from tfhet.errors import DataError, UsageError
from tfhet.profile import Cost, Profile
from tfhet.record import Record, RunSummary, Spread
from tfhet.report.cost import bill, cost_rows, headline, stage_costs

Price = partial(catalogue.Price, region="us-east-1", market="sagemaker training", source="list", date=date(2026, 11, 1))


def run(
    step_ms: float | None, *, hosts: int = 1, kind: str | None = "big", data: int = 0, **changes: Any
) -> RunSummary:
    cluster = {"dnn_group": {"hosts": [f"dnn-{i}" for i in range(hosts)], "instance_type": kind}}
    if data:
        cluster["data_group"] = {"hosts": [f"data-{i}" for i in range(data)], "instance_type": "small"}
    spread = Spread(step_ms, step_ms, step_ms) if step_ms is not None else None
    return RunSummary(**{"cluster": cluster, "step_ms": spread, "batch_size": 100, "ranks": 1, **changes})


PRICES = {"big": Price(36.0), "small": Price(3.6)}


def test_published_comparison_is_reproduced() -> None:
    """1 x p4d 37.69 $/h, 192 ms; + 2 x c5.18xlarge 45.03 $/h, 86 ms: 2.2 times as fast, 46 % cheaper."""
    prices = {"big": Price(37.69), "small": Price(3.67)}
    alone, served = cost_rows({"alone": run(192.0), "served": run(86.0, data=2)}, prices.get)
    assert served.bill.usd_per_hour == pytest.approx(45.03)
    assert served.speedup == pytest.approx(192 / 86)
    assert served.saving_pct == pytest.approx(46.5, abs=0.05)
    assert alone.usd_per_step == pytest.approx(37.69 * 0.192 / 3600)
    assert alone.saving_pct is None and alone.speedup is None
    assert "2.23" in headline([alone, served]) and "46 % less" in headline([alone, served])


def test_different_batches_are_compared_per_example() -> None:
    one, two = cost_rows({"a": run(100.0), "b": run(100.0, ranks=2)}, PRICES.get)
    assert two.speedup == pytest.approx(2.0) and two.saving_pct == pytest.approx(50.0)
    assert one.usd_per_million == pytest.approx(36.0 * 0.1 / 3600 / 100 * 1e6)
    _, unknown = cost_rows({"a": run(100.0), "b": run(50.0, batch_size=None)}, PRICES.get)
    assert unknown.speedup == pytest.approx(2.0) and unknown.usd_per_million is None


def unlisted(name: str) -> Price:
    raise UsageError("unknown")


@pytest.mark.parametrize(
    ("summary", "price_of", "named"),
    [
        (run(1.0, kind="odd"), PRICES.get, "odd"),
        (run(1.0, kind=None), PRICES.get, "dnn_group"),
        (run(1.0), None, "prices"),
        (RunSummary(), PRICES.get, "instances"),
        (run(1.0), unlisted, "big"),
    ],
)
def test_unknown_price_has_a_reason(summary, price_of, named) -> None:
    found = bill(summary, price_of)
    assert found.usd_per_hour is None and named in found.why


def test_headline_of_slower_and_unmeasured_runs() -> None:
    rows = cost_rows({"a": run(100.0), "b": run(200.0)}, PRICES.get)
    assert "2.00 times slower" in headline(rows) and "100 % more" in headline(rows)
    assert "times" not in headline(cost_rows({"a": run(100.0), "b": run(None)}, None))
    assert headline(rows[:1]) == ""


@given(*[st.floats(min_value=0.01, max_value=1e4)] * 3)
def test_lower_price_never_saves_less(step_ms: float, price: float, less: float) -> None:
    runs = {"a": run(100.0), "b": run(step_ms, data=1)}
    savings = [
        cost_rows(runs, {"big": Price(36.0), "small": Price(usd)}.get)[1].saving_pct
        for usd in (price, min(price, less))
    ]
    assert savings[1] >= savings[0]


def test_stage_costs_of_a_profile() -> None:
    fused = "random_flip(); random_zoom()"
    costs = (Cost("read", (3.0, 3.1)), Cost("dilate()", (5.0, 5.2), (1.9, 2.0)), Cost(fused, (9.0, 9.1), (4.0, 4.1)))
    record = Profile("aws-cifar", costs).record()
    where = {"dilate(size=3)": "data_group", "random_flip()": "data_group", "random_zoom()": "trainer"}
    found = stage_costs(record, where)
    assert [(part.name, part.place) for part in found.parts] == [("read", ""), ("dilate()", "data_group"), (fused, "")]
    assert found.parts[1].added is record.figures["profile.dilate.us"]
    assert found.parts[1].alone is record.figures["profile.dilate.alone_us"] and found.parts[0].alone is None
    assert found.whole is record.figures["profile.whole.us"]
    with pytest.raises(DataError, match=r"stages\.aws-cifar"):
        stage_costs(Record("stages.aws-cifar"), {})
