"""follow/state.py: what a job has cost so far."""

from __future__ import annotations

import datetime

import pytest

from tfhet.catalogue import TRAINING, Price
from tfhet.follow.state import JobState, cost_of, training_prices

CLUSTER = {
    "dnn_group": {"hosts": ["algo-1"], "instance_type": "ml.g5.xlarge"},
    "data_group": {"hosts": ["algo-2", "algo-3"], "instance_type": "ml.c5.xlarge"},
}
RUNS = JobState("demo", "InProgress", started_s=1000.0)


def price(name: str) -> Price | None:
    usd = {"ml.g5.xlarge": 1.5, "ml.c5.xlarge": 0.25}.get(name)
    return None if usd is None else Price(usd, "us-east-1", TRAINING, "a test", datetime.date(2026, 1, 1))


def test_all_instances_are_paid_for_the_time_since_they_were_there() -> None:
    found = cost_of(RUNS, CLUSTER, price, 1000.0 + 1800)
    assert found.usd_per_hour == 2.0 and found.billable_s == 1800 and found.usd == pytest.approx(1.0)
    assert str(found) == "$1.00"
    assert found.in_words(is_over=False) == "30 min 00 s, $1.00 so far"
    assert found.in_words(is_over=True) == "30 min 00 s, $1.00"
    assert cost_of(JobState("demo", "InProgress"), CLUSTER, price, 2800.0).in_words(is_over=False) == ""


def test_one_price_that_is_missing_makes_the_cost_unknown_and_is_named() -> None:
    cluster = {**CLUSTER, "data_group": {"hosts": ["algo-2"], "instance_type": "ml.c5.24xlarge"}}
    found = cost_of(RUNS, cluster, price, 2800.0)
    assert found.usd is None and str(found) == "no price of ml.c5.24xlarge is known"
    assert found.in_words(is_over=False) == "30 min 00 s, no price of ml.c5.24xlarge is known"


def test_spot_costs_at_most_the_price_on_demand_until_sagemaker_says_what_it_did() -> None:
    spot = JobState("demo", "InProgress", started_s=1000.0, is_spot=True)
    assert str(cost_of(spot, CLUSTER, price, 2800.0)) == "at most $1.00"
    over = JobState("demo", "Completed", started_s=1000.0, ended_s=2800.0, billed_s=540.0, is_spot=True)
    assert str(cost_of(over, CLUSTER, price, 9999.0)) == "$0.300"


def test_the_prices_are_those_of_training_not_of_ec2() -> None:
    found = training_prices("us-east-1")("ml.g5.xlarge")
    assert found is not None and found.market == TRAINING
    assert training_prices("us-east-1")("ml.p4d.24xlarge") is None, "the package knows EC2's price only"
