"""follow/state.py: a training job as DescribeTrainingJob tells of it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tfhet.cluster import HOMOGENEOUS_GROUP
from tfhet.follow.state import USUAL_LIMIT_S, InstanceGroup, JobState


def moment(at_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC)


def state(**told: Any) -> JobState:
    answer = {"TrainingJobName": "demo", "TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"}
    return JobState.of({**answer, **told})


def test_a_job_of_one_type_has_one_group() -> None:
    found = state(ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 3})
    assert found.groups == (InstanceGroup(HOMOGENEOUS_GROUP, "ml.g5.xlarge", 3),)
    assert found.hosts == 3 and not found.is_heterogeneous


def test_a_job_with_groups_has_them_in_order() -> None:
    groups = [
        {"InstanceGroupName": name, "InstanceType": "ml.c5.xlarge", "InstanceCount": count}
        for name, count in (("b", 2), ("a", 1))
    ]
    found = state(ResourceConfig={"InstanceGroups": groups})
    assert [group.name for group in found.groups] == ["b", "a"] and found.is_heterogeneous and found.hosts == 3


@pytest.mark.parametrize(
    ("status", "is_over"),
    [("InProgress", False), ("Stopping", False), ("Stopped", True), ("Completed", True), ("Failed", True)],
)
def test_a_job_is_over_when_nothing_goes_on(status: str, is_over: bool) -> None:
    assert state(TrainingJobStatus=status).is_over is is_over


def test_nothing_is_billed_before_the_instances_are_there_and_the_time_so_far_after_it() -> None:
    assert state().billable_s(5000.0) == 0.0
    assert state(TrainingStartTime=moment(1000)).billable_s(1500.0) == 500.0


def test_a_job_that_is_over_says_itself_what_is_billed() -> None:
    ended = {"TrainingJobStatus": "Completed", "TrainingStartTime": moment(1000), "TrainingEndTime": moment(2000)}
    assert state(**ended).billable_s(9000.0) == 1000.0
    assert state(**ended, TrainingTimeInSeconds=990).billable_s(9000.0) == 990.0
    assert state(**ended, TrainingTimeInSeconds=990, BillableTimeInSeconds=297).billable_s(9000.0) == 297.0


def test_the_limit_is_that_of_spot_instances_where_there_is_one() -> None:
    assert state().limit_s == USUAL_LIMIT_S
    assert state(StoppingCondition={"MaxRuntimeInSeconds": 60}).limit_s == 60
    assert state(StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90}).limit_s == 90


def test_hyperparameters_lose_the_quotes_of_sagemakers_sdk() -> None:
    found = state(HyperParameters={"batch_size": '"32"', "seed": "7"})
    assert [found.hyperparameter(name) for name in ("batch_size", "seed", "none")] == ["32", "7", None]


def test_a_job_is_told_with_its_last_message() -> None:
    moves = [{"Status": "Starting", "StatusMessage": "first"}, {"Status": "Training", "StatusMessage": "second."}]
    assert str(state(SecondaryStatusTransitions=moves)) == "InProgress, Training: second."
    assert str(state(TrainingJobStatus="Failed", SecondaryStatus="Failed")) == "Failed"
