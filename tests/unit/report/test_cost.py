"""report/cost.py: what a step costs, and what one run gains over another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tfhet.errors import UsageError
from tfhet.record import RunSummary, Spread
from tfhet.report.cost import bill, cost_rows, headline


@dataclass(frozen=True)
class Price:
    usd_per_hour: float
    region: str = "us-east-1"
    market: str = "training"
    source: str = "list"
    date: str = "2026-11-01"


def run(
    step_ms: float | None, *, hosts: int = 1, kind: str | None = "big", data: int = 0, **changes: Any
) -> RunSummary:
    cluster = {"dnn_group": {"hosts": [f"dnn-{i}" for i in range(hosts)], "instance_type": kind}}
    if data:
        cluster["data_group"] = {"hosts": [f"data-{i}" for i in range(data)], "instance_type": "small"}
    spread = Spread(step_ms, step_ms, step_ms) if step_ms is not None else None
    return RunSummary(**{"cluster": cluster, "step_ms": spread, "batch_size": 100, "ranks": 1, **changes})


PRICES = {"big": Price(36.0), "small": Price(3.6)}


def test_the_figures_of_the_published_comparison_come_out() -> None:
    """1 x p4d 37.69 $/h, 192 ms; + 2 x c5.18xlarge 45.03 $/h, 86 ms: 2.2 times, 46 % cheaper."""
    prices = {"big": Price(37.69), "small": Price(3.67)}
    alone, served = cost_rows({"alone": run(192.0), "served": run(86.0, data=2)}, prices.get)
    assert served.bill.usd_per_hour == pytest.approx(45.03)
    assert served.speedup == pytest.approx(192 / 86)
    assert served.saving_pct == pytest.approx(46.5, abs=0.05)
    assert alone.usd_per_step == pytest.approx(37.69 * 0.192 / 3600)
    assert alone.saving_pct is None and alone.speedup is None
    assert headline([alone, served]) == "served is 2.23 times as fast as alone, and an example costs 46 % less."


def test_runs_with_other_batches_are_compared_by_the_example() -> None:
    one, two = cost_rows({"a": run(100.0), "b": run(100.0, ranks=2)}, PRICES.get)
    assert two.speedup == pytest.approx(2.0) and two.saving_pct == pytest.approx(50.0)
    assert one.usd_per_million == pytest.approx(36.0 * 0.1 / 3600 / 100 * 1e6)
    _, unknown = cost_rows({"a": run(100.0), "b": run(50.0, batch_size=None)}, PRICES.get)
    assert unknown.speedup == pytest.approx(2.0) and unknown.usd_per_million is None


@pytest.mark.parametrize(
    ("summary", "price_of", "why"),
    [
        (run(1.0, kind="odd"), PRICES.get, "no price of odd is known"),
        (run(1.0, kind=None), PRICES.get, "the record names no instance type of dnn_group"),
        (run(1.0), None, "no prices were given"),
        (RunSummary(), PRICES.get, "the record names no instances"),
    ],
)
def test_a_price_that_is_not_known_is_said_with_its_reason(summary, price_of, why) -> None:
    found = bill(summary, price_of)
    assert found.usd_per_hour is None and found.why == why


def test_a_type_that_the_catalogue_does_not_know_is_no_error() -> None:
    def price_of(name: str) -> Price:
        raise UsageError("unknown")

    assert bill(run(1.0), price_of).why == "big is no type of the catalogue"


def test_a_slower_run_is_called_slower() -> None:
    rows = cost_rows({"a": run(100.0), "b": run(200.0)}, PRICES.get)
    assert headline(rows) == "b is 2.00 times slower than a, and an example costs 100 % more."
    assert headline(cost_rows({"a": run(100.0), "b": run(None)}, None)).startswith("The runs cannot be compared")
    assert headline(rows[:1]) == ""


@given(*[st.floats(min_value=0.01, max_value=1e4)] * 3)
def test_a_lower_price_never_saves_less(step_ms: float, price: float, less: float) -> None:
    runs = {"a": run(100.0), "b": run(step_ms, data=1)}
    savings = [
        cost_rows(runs, {"big": Price(36.0), "small": Price(usd)}.get)[1].saving_pct
        for usd in (price, min(price, less))
    ]
    assert savings[1] >= savings[0]
