"""follow/heard.py and follow/follow_record.py: the record of a run, from lines alone."""

from __future__ import annotations

import pytest

from tfhet.catalogue import InstanceGroup
from tfhet.follow.follow_record import _times, summary_of
from tfhet.follow.heard import Heard
from tfhet.follow.log_line import LogLine
from tfhet.follow.state import JobCost, JobState
from tfhet.messages import JobResultLine, MetricLine
from tfhet.record import RunSummary

GROUPS = (InstanceGroup("dnn_group", "ml.g5.xlarge", 2),)
COST = JobCost(100.0, None, False, "")


def heard(*texts: str, host: str = "algo-1") -> Heard:
    found = Heard()
    for number, text in enumerate(texts):
        found.hear(LogLine(host, 1000 * number, text))
    return found


def metric(step: int, step_ms: float, wait_pct: float, rate: float = 100.0) -> MetricLine:
    return MetricLine(step, 0, step_ms, rate, wait_pct)


def summary(status: str, *texts: str, reason: str | None = None) -> RunSummary:
    return summary_of(JobState("demo", status, failure_reason=reason, groups=GROUPS), heard(*texts), COST)


def test_steps_that_are_taken_again_after_a_restart_count_once() -> None:
    found = heard(*(str(metric(step, ms, 1.0)) for step, ms in ((10, 5.0), (20, 5.0), (20, 7.0), (30, 7.0))))
    assert [(each.step, each.step_ms) for each in found.steps] == [(10, 5.0), (20, 7.0), (30, 7.0)]
    assert found.trained_ms == (0, 3000)


def test_shares_and_rates_are_means_over_time_not_over_lines() -> None:
    times = _times([metric(10, 1.0, 99.0), metric(20, 100.0, 10.0, 300.0), metric(50, 100.0, 50.0, 100.0)])
    assert times["wait_pct"] == pytest.approx(40.0) and times["examples_per_s"] == pytest.approx(150.0)
    assert times["step_ms"].samples == (100.0, 100.0)
    assert times["wait_ms"].samples == pytest.approx((10.0, 50.0))


def test_the_only_metric_line_is_better_than_none() -> None:
    assert _times([metric(10, 50.0, 20.0)])["wait_pct"] == pytest.approx(20.0)
    assert _times([]) == {}


def test_a_job_that_failed_has_the_code_and_the_words_of_the_launcher_that_said_so_first() -> None:
    said = JobResultLine(3, "train.py ended on algo-2, rank 1: exit code 3: KeyError: 'x'")
    later = JobResultLine(1, "later")
    found = summary("Failed", f"[algo-1/0] {said}", f"[algo-1/1] {later}", reason="AlgorithmError: , exit code: 1")
    assert found.exit_code == 3 and found.exit_codes == {"algo-1": 3}
    assert found.cause == "train.py ended on algo-2, rank 1: exit code 3: KeyError: 'x'"
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
def test_the_code_of_a_job_is_0_only_when_it_is_completed(
    status: str, reason: str | None, code: int | None, cause: str | None
) -> None:
    found = summary(status, "hello", reason=reason)
    assert (found.exit_code, found.cause) == (code, cause)
    assert found.status == (None if status == "InProgress" else status)


def test_epochs_hold_the_numbers_that_were_printed() -> None:
    found = summary(
        "Completed",
        "[tfhet] end of epoch=1 steps=3 loss=nan seen=10 expected=10 word=odd",
        "[tfhet] end of epoch=0 steps=3",
    )
    assert [epoch["epoch"] for epoch in found.epochs] == [0, 1]
    assert found.epochs[1]["seen"] == 10 and "word" not in found.epochs[1]


def test_a_run_without_a_line_is_still_a_record() -> None:
    found = summary_of(JobState("demo", "Stopped", groups=GROUPS), Heard(), COST)
    assert found.steps is None and found.step_ms is None and found.billable_s == 100.0 and found.usd is None
    assert found.cluster["dnn_group"]["hosts"] == ["dnn_group host 1", "dnn_group host 2"]
    assert RunSummary.from_json(found.to_json()) == found
