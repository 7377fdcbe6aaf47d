"""follow/state.py, heard.py, follow_record.py: a training job as SageMaker and its log describe it, cost and record."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tfhet.catalogue import TRAINING, InstanceGroup, Price
from tfhet.cluster import HOMOGENEOUS_GROUP
from tfhet.follow.follow_record import _times, summary_of
from tfhet.follow.heard import Heard, cluster_of, placed
from tfhet.follow.log_streams import LogLine
from tfhet.follow.state import USUAL_LIMIT_S, JobCost, JobState, cost_of, training_prices
from tfhet.messages import HostLine, JobResultLine, MetricLine
from tfhet.record import RunSummary


def moment(at_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC)


def state(**described: Any) -> JobState:
    answer = {"TrainingJobName": "demo", "TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"}
    return JobState.of({**answer, **described})


def test_groups_of_a_job() -> None:
    found = state(ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 3})
    assert found.groups == (InstanceGroup(HOMOGENEOUS_GROUP, "ml.g5.xlarge", 3),)
    assert found.hosts == 3 and not found.is_heterogeneous
    groups = [
        {"InstanceGroupName": name, "InstanceType": "ml.c5.xlarge", "InstanceCount": count}
        for name, count in (("b", 2), ("a", 1))
    ]
    found = state(ResourceConfig={"InstanceGroups": groups})
    assert [group.name for group in found.groups] == ["b", "a"] and found.is_heterogeneous and found.hosts == 3


@pytest.mark.parametrize("status", ["InProgress", "Stopping", "Stopped", "Completed", "Failed"])
def test_ended_jobs_are_over(status: str) -> None:
    assert state(TrainingJobStatus=status).is_over == (status not in ("InProgress", "Stopping"))


ENDED = {"TrainingJobStatus": "Completed", "TrainingStartTime": moment(1000), "TrainingEndTime": moment(2000)}


@pytest.mark.parametrize(
    ("described", "now_s", "billable_s"),
    [
        ({}, 5000.0, 0.0),
        ({"TrainingStartTime": moment(1000)}, 1500.0, 500.0),
        (ENDED, 9000.0, 1000.0),
        ({**ENDED, "TrainingTimeInSeconds": 990}, 9000.0, 990.0),
        ({**ENDED, "TrainingTimeInSeconds": 990, "BillableTimeInSeconds": 297}, 9000.0, 297.0),
    ],
)
def test_billable_seconds(described: dict[str, Any], now_s: float, billable_s: float) -> None:
    assert state(**described).billable_s(now_s) == billable_s


def test_limit_hyperparameters_and_message() -> None:
    assert state().limit_s == USUAL_LIMIT_S
    assert state(StoppingCondition={"MaxRuntimeInSeconds": 60}).limit_s == 60
    assert state(StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90}).limit_s == 90
    found = state(HyperParameters={"batch_size": '"32"', "seed": "7"})
    assert [found.hyperparameter(name) for name in ("batch_size", "seed", "none")] == ["32", "7", None]
    moves = [{"Status": "Starting", "StatusMessage": "first"}, {"Status": "Training", "StatusMessage": "second."}]
    assert str(state(SecondaryStatusTransitions=moves)) == "InProgress, Training: second."
    assert str(state(TrainingJobStatus="Failed", SecondaryStatus="Failed")) == "Failed"


CLUSTER = {
    "dnn_group": {"hosts": ["algo-1"], "instance_type": "ml.g5.xlarge"},
    "data_group": {"hosts": ["algo-2", "algo-3"], "instance_type": "ml.c5.xlarge"},
}
RUNS = JobState("demo", "InProgress", started_s=1000.0)


def price(name: str) -> Price | None:
    usd = {"ml.g5.xlarge": 1.5, "ml.c5.xlarge": 0.25}.get(name)
    return None if usd is None else Price(usd, "us-east-1", TRAINING, "a test", datetime.date(2026, 1, 1))


def test_cost_counts_all_instances() -> None:
    found = cost_of(RUNS, CLUSTER, price, 2800.0)
    assert found.usd_per_hour == 2.0 and found.billable_s == 1800 and found.usd == pytest.approx(1.0)
    assert found.in_words(is_over=False) == "30 min 00 s, $1.00 so far"
    assert found.in_words(is_over=True) == "30 min 00 s, $1.00"
    assert cost_of(JobState("demo", "InProgress"), CLUSTER, price, 2800.0).in_words(is_over=False) == ""
    cluster = {**CLUSTER, "data_group": {"hosts": ["algo-2"], "instance_type": "ml.c5.24xlarge"}}
    unknown = cost_of(RUNS, cluster, price, 2800.0)
    assert unknown.usd is None and "ml.c5.24xlarge" in str(unknown)


def test_spot_cost_is_a_maximum_until_the_end() -> None:
    spot = JobState("demo", "InProgress", started_s=1000.0, is_spot=True)
    assert str(cost_of(spot, CLUSTER, price, 2800.0)) == "at most $1.00"
    over = JobState("demo", "Completed", started_s=1000.0, ended_s=2800.0, billed_s=540.0, is_spot=True)
    assert str(cost_of(over, CLUSTER, price, 9999.0)) == "$0.300"


def test_prices_are_of_training() -> None:
    found = training_prices("us-east-1")("ml.g5.xlarge")
    assert found is not None and found.market == TRAINING
    assert training_prices("us-east-1")("ml.p4d.24xlarge") is None, "only EC2's price is known"


DNN, DATA = InstanceGroup("dnn_group", "ml.p4d.24xlarge", 1), InstanceGroup("data_group", "ml.c5.18xlarge", 2)
ONLY = InstanceGroup(HOMOGENEOUS_GROUP, "ml.g5.xlarge", 3)
HOSTS = ["algo-1", "algo-2", "algo-3"]


@pytest.mark.parametrize(
    ("groups", "known", "found"),
    [
        ([ONLY], {}, dict.fromkeys(HOSTS, HOMOGENEOUS_GROUP)),
        ([DNN, DATA], {"algo-2": "dnn_group"}, {"algo-1": "data_group", "algo-2": "dnn_group", "algo-3": "data_group"}),
        ([DNN, DATA], {"algo-1": "data_group"}, {"algo-1": "data_group"}),
        ([DNN, DATA], {"algo-1": "unknown group"}, {}),
    ],
)
def test_hosts_are_placed_if_certain(groups, known, found) -> None:
    assert placed(groups, known, HOSTS) == found


def test_cluster_has_all_paid_hosts() -> None:
    cluster = cluster_of(
        [DNN, DATA], Heard({"algo-2": HostLine("heterogeneous", "dnn", "dnn_group", 8), "algo-3": None})
    )
    dnn = {"hosts": ["algo-2"], "instance_type": "ml.p4d.24xlarge", "role": "dnn", "ranks_per_host": 8}
    assert cluster["dnn_group"] == dnn
    assert cluster["data_group"]["hosts"] == ["algo-3", "data_group host 2"] and cluster["data_group"]["role"] is None
    (group,) = cluster_of([ONLY], Heard({"algo-10": None, "algo-2": None, "algo-1": None})).values()
    assert group["hosts"] == ["algo-1", "algo-2", "algo-10"] and group["role"] == "dnn"


GROUPS = (InstanceGroup("dnn_group", "ml.g5.xlarge", 2),)
COST = JobCost(100.0, None, False, "")


def heard(*texts: str) -> Heard:
    found = Heard()
    for number, text in enumerate(texts):
        found.hear(LogLine("algo-1", 1000 * number, text))
    return found


def metric(step: int, step_ms: float, wait_pct: float, rate: float = 100.0) -> MetricLine:
    return MetricLine(step, 0, step_ms, rate, wait_pct)


def summary(status: str, *texts: str, reason: str | None = None) -> RunSummary:
    return summary_of(JobState("demo", status, failure_reason=reason, groups=GROUPS), heard(*texts), COST)


def test_repeated_steps_count_once() -> None:
    found = heard(*(str(metric(step, ms, 1.0)) for step, ms in ((10, 5.0), (20, 5.0), (20, 7.0), (30, 7.0))))
    assert [(each.step, each.step_ms) for each in found.steps] == [(10, 5.0), (20, 7.0), (30, 7.0)]
    assert found.trained_ms == (0, 3000)


def test_times_are_means_over_time() -> None:
    times = _times([metric(10, 1.0, 99.0), metric(20, 100.0, 10.0, 300.0), metric(50, 100.0, 50.0, 100.0)])
    assert times["wait_pct"] == pytest.approx(40.0) and times["examples_per_s"] == pytest.approx(150.0)
    assert times["step_ms"].samples == (100.0, 100.0) and times["wait_ms"].samples == pytest.approx((10.0, 50.0))
    assert _times([metric(10, 50.0, 20.0)])["wait_pct"] == pytest.approx(20.0), "a single line counts"
    assert _times([]) == {}


def test_first_failed_launcher_is_the_cause() -> None:
    first, later = JobResultLine(3, "train.py ended: KeyError: 'x'"), JobResultLine(1, "later")
    found = summary("Failed", f"[algo-1/0] {first}", f"[algo-1/1] {later}", reason="AlgorithmError: , exit code: 1")
    assert (found.exit_code, found.exit_codes, found.cause) == (3, {"algo-1": 3}, "train.py ended: KeyError: 'x'")
    assert found.failure_reason == "AlgorithmError: , exit code: 1"


@pytest.mark.parametrize(
    ("status", "reason", "code", "cause"),
    [
        ("InProgress", None, None, None),
        ("Completed", None, 0, None),
        ("Failed", "AlgorithmError: it broke, exit code: 137", 137, "AlgorithmError: it broke, exit code: 137"),
        ("Failed", "CapacityError: none there", 1, "CapacityError: none there"),
        ("Failed", "odd, exit code: 0", 1, "odd, exit code: 0"),
        ("Stopped", None, 1, "Stopped"),
    ],
)
def test_only_completed_jobs_have_code_0(status: str, reason: str | None, code: int | None, cause: str | None) -> None:
    found = summary(status, "hello", reason=reason)
    assert (found.exit_code, found.cause) == (code, cause)
    assert found.status == (None if status == "InProgress" else status)


def test_epochs_are_read_in_order() -> None:
    lines = ("end of epoch=1 steps=3 loss=nan seen=10 expected=10 word=odd", "end of epoch=0 steps=3")
    found = summary("Completed", *(f"[tfhet] {line}" for line in lines))
    assert [epoch["epoch"] for epoch in found.epochs] == [0, 1]
    assert found.epochs[1]["seen"] == 10 and "word" not in found.epochs[1]


def test_silent_run_has_a_record() -> None:
    found = summary_of(JobState("demo", "Stopped", groups=GROUPS), Heard(), COST)
    assert found.steps is None and found.step_ms is None and found.billable_s == 100.0 and found.usd is None
    assert found.cluster["dnn_group"]["hosts"] == ["dnn_group host 1", "dnn_group host 2"]
    assert RunSummary.from_json(found.to_json()) == found
