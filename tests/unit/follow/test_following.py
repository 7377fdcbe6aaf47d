"""follow/following.py: a job followed to its end, from a recorded log with late, repeated and unordered lines."""

from __future__ import annotations

import datetime
import io
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")

from botocore.exceptions import ClientError  # noqa: E402
from botocore.stub import Stubber  # noqa: E402
from fake_clock import FakeClock  # noqa: E402

from tfhet.catalogue import TRAINING, Price  # noqa: E402
from tfhet.errors import NotReady, UsageError  # noqa: E402
from tfhet.follow import following as followed_module  # noqa: E402
from tfhet.follow.following import STOP_S, Followed, follow  # noqa: E402
from tfhet.follow.log_streams import GROUP  # noqa: E402
from tfhet.messages import (  # noqa: E402
    FirstBatchLine,
    HostLine,
    MetricLine,
    RestartLine,
    StepPartsLine,
)
from tfhet.record import RunFolder, RunSummary  # noqa: E402
from tfhet.report import compare, place_of, text  # noqa: E402
from tfhet.report.run_view import RunView  # noqa: E402

T0 = 1_700_000_000.0
STARTED_S, ENDED_S = T0 + 60, T0 + 420
"""When training began and ended."""
DATA = f"[algo-1] {HostLine('heterogeneous', 'data', 'data_group', plane={'workers': '2'})}"
DNN = f"[algo-2/0] {HostLine('heterogeneous', 'dnn', 'dnn_group', 2, {'workers': '2'})}"


def metric(step: int, step_ms: float, wait_pct: float) -> str:
    rate = 1e3 * 64 / step_ms
    return f"[1,mpirank:0,algo-1]<stdout>:[algo-2/0] {MetricLine(step, 0, step_ms, rate, wait_pct, 2.3)}"


RECORDED = [
    # it is there at, of stream, printed at, what; seconds since T0
    (100, "algo-2-1700", 95, "toolkit: starting"),
    (100, "algo-2-1700", 96, DNN),
    (110, "algo-2-1700", 101, f"[algo-2/0] {FirstBatchLine(3.25)}"),
    (131, "algo-2-1700", 130, metric(100, 200, 60)),
    (164, "algo-2-1700", 160, "behind the late one"),
    (167, "algo-2-1700", 159, "late"),
    (170, "algo-1-1702", 95, DATA),  # the stream of the other host appears only now
    (170, "algo-1-1702", 140, f"[algo-1] {RestartLine('worker-1', -9)}"),
    (171, "algo-1-1702", 141, "the same"),
    (171, "algo-1-1702", 141, "the same"),
    (231, "algo-2-1700", 230, metric(200, 100, 20)),
    (331, "algo-2-1700", 330, metric(300, 100, 10)),
    (
        331,
        "algo-2-1700",
        330,
        f"[algo-2/0] {StepPartsLine({'wait': 10.0, 'copy': 5.0, 'compute': 85.0})}",
    ),
    (332, "algo-2-1700", 331, "[algo-2/0] [tfhet] end of epoch=0 steps=300 examples=19200 loss=2.1 accuracy=0.4"),
    (431, "algo-1-1702", 419, "the last word comes when the job is over"),
]


class Cloud:
    """SageMaker and CloudWatch Logs of one job, as they are at the time of a clock."""

    def __init__(self, clock: FakeClock, status: str = "Completed", reason: str | None = None):
        self.meta = SimpleNamespace(region_name="us-east-1")
        self.busy = 0
        """Number of calls that will be throttled."""
        self.stopped_s: float | None = None
        self.stop_takes_s = 20.0
        self._clock, self._status, self._reason = clock, status, reason

    def describe_training_job(self, TrainingJobName: str) -> dict[str, Any]:
        self._throttle("DescribeTrainingJob")
        now_s, stop_s = self._clock.wall(), self.stopped_s
        over_s = ENDED_S if stop_s is None else stop_s + self.stop_takes_s
        status = "InProgress" if stop_s is None else "Stopping"
        secondary = "Training" if now_s > STARTED_S else "Starting"
        found: dict[str, Any] = {}
        if now_s > STARTED_S:
            found["TrainingStartTime"] = moment(STARTED_S)
        if now_s >= over_s:
            status = secondary = self._status if stop_s is None else "Stopped"
            found |= {"TrainingEndTime": moment(over_s), "BillableTimeInSeconds": round(over_s - STARTED_S)}
            found |= {"FailureReason": self._reason} if self._reason else {}
        return {**DESCRIBED, **found, "TrainingJobStatus": status, "SecondaryStatus": secondary}

    def stop_training_job(self, TrainingJobName: str) -> None:
        self.stopped_s = self._clock.wall()

    def describe_log_streams(self, logGroupName: str, logStreamNamePrefix: str) -> dict[str, Any]:
        self._throttle("DescribeLogStreams")
        names = {f"demo/{stream}" for at_s, stream, *_ in RECORDED if T0 + at_s <= self._clock.wall()}
        return {"logStreams": [{"logStreamName": name} for name in sorted(names)]}

    def get_log_events(self, logGroupName: str, logStreamName: str, startTime: int = 0, **rest: Any) -> dict[str, Any]:
        there = sorted(
            (round(1000 * (T0 + at_s)), text)
            for since_s, stream, at_s, text in RECORDED
            if f"demo/{stream}" == logStreamName and T0 + since_s <= self._clock.wall()
        )
        place = int(rest.get("nextToken", 0))
        events = [{"timestamp": ms, "message": text, "ingestionTime": 0} for ms, text in there if ms >= startTime]
        return {"events": events[place : place + 2], "nextForwardToken": str(min(len(events), place + 2))}

    def _throttle(self, operation: str) -> None:
        if self.busy:
            self.busy -= 1
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, operation)


DESCRIBED: dict[str, Any] = {
    "TrainingJobName": "demo",
    "ResourceConfig": {
        "InstanceGroups": [
            {"InstanceGroupName": "data_group", "InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
            {"InstanceGroupName": "dnn_group", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
        ],
        "VolumeSizeInGB": 30,
    },
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    "HyperParameters": {"batch_size": '"32"'},
}


def moment(at_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC)


def price(name: str) -> Price:
    return Price(
        {"ml.c5.xlarge": 0.5, "ml.g5.xlarge": 1.5}[name], "us-east-1", TRAINING, "a test", datetime.date.today()
    )


class Interrupted(FakeClock):
    """A clock on which Ctrl-C comes at some times, while somebody sleeps."""

    def __init__(self, start_s: float, *at_s: float):
        super().__init__(start_s)
        self._at_s = list(at_s)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self._at_s and self.wall() >= self._at_s[0]:
            self._at_s.pop(0)
            raise KeyboardInterrupt


def run(tmp_path: Path, cloud: Cloud, clock: FakeClock, **how: Any) -> tuple[Followed, str]:
    out = io.StringIO()
    found = follow("demo", cloud, cloud, run_dir=tmp_path / "demo", out=out, price_of=price, clock=clock, **how)
    return found, out.getvalue()


def test_a_job_is_followed_from_its_start_and_each_line_shown_once_in_the_order_of_time(tmp_path: Path) -> None:
    clock = FakeClock(T0)
    found, out = run(tmp_path, Cloud(clock), clock)
    assert found.exit_code == 0
    shown = [line.partition(" | ") for line in out.splitlines() if " | " in line]
    assert Counter(said for _, _, said in shown) == Counter(place_of(said)[1] for *_, said in RECORDED)
    at_s = {place_of(said)[1]: at_s for _, _, at_s, said in RECORDED}
    for host in ("algo-1", "algo-2"):
        times = [at_s[said] for who, _, said in shown if who.startswith(host)]
        assert times == sorted(times) and times
    assert ("algo-2 dnn_group", " | ", "late") in shown and ("algo-1 data_group", " | ", "the same") in shown
    assert found.folder.log_tail("algo-1", 1) == ["the last word comes when the job is over"]


def test_the_record_holds_the_run_beside_simulated_ones(tmp_path: Path) -> None:
    clock = FakeClock(T0)
    summary = run(tmp_path, Cloud(clock), clock)[0].folder.read_summary()
    assert (summary.name, summary.mode, summary.status, summary.exit_code) == ("demo", "heterogeneous", "Completed", 0)
    assert summary.exit_codes == {"algo-1": 0, "algo-2": 0} and summary.cause is None
    assert summary.cluster["data_group"]["hosts"] == ["algo-1"] and summary.cluster["data_group"]["role"] == "data"
    assert summary.cluster["dnn_group"]["instance_type"] == "ml.g5.xlarge"
    assert (summary.steps, summary.ranks, summary.batch_size, summary.restarts) == (300, 2, 32, 1)
    assert summary.step_ms is not None and summary.step_ms.samples == (100.0, 100.0), "the first line is warm-up"
    assert summary.wait_pct == pytest.approx(15.0) and summary.examples_per_s == pytest.approx(640.0)
    assert summary.first_batch_s == 3.25 and summary.step_parts_ms == {"wait": 10.0, "copy": 5.0, "compute": 85.0}
    assert summary.metrics == {"loss": 2.1, "accuracy": 0.4}
    assert summary.duration_s == summary.billable_s == 360 and summary.usd == pytest.approx(0.2)
    assert summary.usd_per_million_examples == pytest.approx(1e6 / 640 * 2.0 / 3600)
    side = text(compare({"simulated": RunSummary(status="Completed"), "paid": summary}))
    assert "billable (s)" in side and "USD" in side
    assert not RunView.of(summary).is_simulated and RunView.of(RunSummary(status="Completed")).is_simulated


def test_a_job_that_failed_says_why_and_what_it_cost(tmp_path: Path) -> None:
    clock = FakeClock(ENDED_S + 1000)
    reason = "AlgorithmError: rank 1 on algo-2 was killed, exit code: 137"
    found, out = run(tmp_path, Cloud(clock, "Failed", reason), clock)
    assert found.exit_code == 1 and found.summary.exit_code == 137
    assert found.summary.failure_reason == found.summary.cause == reason
    assert reason in out and "$0.200 for 6 min 00 s" in out


def test_a_job_that_ended_long_ago_is_read_in_one_go(tmp_path: Path) -> None:
    clock = FakeClock(ENDED_S + 5000)
    found, out = run(tmp_path, Cloud(clock), clock)
    assert clock.wall() == ENDED_S + 5000, "nothing was waited for"
    assert out.count(" | ") == len(RECORDED) and found.summary.steps == 300


def test_following_again_writes_the_logs_anew(tmp_path: Path) -> None:
    clock = FakeClock(ENDED_S + 5000)
    for _ in range(2):
        found, _ = run(tmp_path, Cloud(clock), clock)
    whole = (found.folder.logs_path / "algo-2.log").read_text().splitlines()
    assert len(whole) == sum(stream == "algo-2-1700" for _, stream, *_ in RECORDED)


def test_being_throttled_is_waited_out(tmp_path: Path) -> None:
    clock = FakeClock(T0)
    cloud = Cloud(clock)
    cloud.busy = 5
    found, _ = run(tmp_path, cloud, clock)
    assert found.exit_code == 0 and cloud.busy == 0


def test_ctrl_c_without_a_terminal_leaves_the_job_running_and_says_so(tmp_path: Path) -> None:
    clock = Interrupted(T0, T0 + 300)
    cloud = Cloud(clock)
    found, out = run(tmp_path, cloud, clock)
    assert cloud.stopped_s is None and found.exit_code == 130
    assert "demo runs on, and is paid for" in out and "stop-training-job --training-job-name demo" in out
    assert found.summary.exit_code is None and found.summary.steps == 200, "the record of what was seen"


def test_ctrl_c_asks_and_no_leaves_the_job_running(tmp_path: Path) -> None:
    clock = Interrupted(T0, T0 + 300)
    cloud = Cloud(clock)
    asked: list[str] = []
    found, out = run(tmp_path, cloud, clock, ask=lambda question: bool(asked.append(question)))
    assert len(asked) == 1 and "Stop the job" in asked[0]
    assert cloud.stopped_s is None and "demo runs on" in out and found.summary.status is None


def test_ctrl_c_asks_and_yes_stops_the_job_and_waits_for_its_end(tmp_path: Path) -> None:
    clock = Interrupted(T0, T0 + 300)
    cloud = Cloud(clock)
    found, _ = run(tmp_path, cloud, clock, ask=lambda question: True)
    assert cloud.stopped_s == pytest.approx(T0 + 300, abs=5)
    assert found.summary.status == "Stopped" and found.exit_code == 1 and found.summary.billable_s is not None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_steps_in_a_table_and_asks_on_it(tmp_path: Path) -> None:
    clock, out = Interrupted(T0, T0 + 300), Terminal()
    asked: list[str] = []
    cloud = Cloud(clock)

    def ask(question: str) -> bool:
        asked.append(out.getvalue())
        return True

    found = follow("demo", cloud, cloud, run_dir=tmp_path, out=out, ask=ask, price_of=price, clock=clock)
    said = out.getvalue()
    assert "algo-1 data_group\x1b[0m | the same" in said and "waiting for data" in said and "so far" in said
    assert "step_ms=100.0" not in said, "metric lines stand in the table only"
    assert len(asked) == 1 and found.summary.status == "Stopped" and said.startswith(asked[0])


def test_a_second_ctrl_c_does_not_wait_for_the_end(tmp_path: Path) -> None:
    clock = Interrupted(T0, T0 + 300, T0 + 310)
    found, out = run(tmp_path, Cloud(clock), clock, ask=lambda question: True)
    assert found.summary.exit_code is None and "demo is Stopping" in out


def test_a_job_that_does_not_stop_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    clock = Interrupted(T0, T0 + 300)
    cloud = Cloud(clock)
    cloud.stop_takes_s = 2 * STOP_S
    with pytest.raises(NotReady, match=f"demo is Stopping after {STOP_S:g} s"):
        run(tmp_path, cloud, clock, ask=lambda question: True)
    assert RunFolder(tmp_path / "demo").read_summary().steps == 300, "the record is written"


def test_following_has_a_deadline(tmp_path: Path) -> None:
    clock = FakeClock(T0)
    with pytest.raises(NotReady, match="demo is InProgress after 100 s; `tfhet follow demo` shows it again"):
        run(tmp_path, Cloud(clock), clock, deadline_s=100)
    assert clock.wall() == pytest.approx(T0 + 100, abs=5)


def test_the_requests_and_answers_are_those_of_aws(tmp_path: Path) -> None:
    sagemaker, logs = (
        boto3.client(name, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        for name in ("sagemaker", "logs")
    )
    whole = {
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/demo",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://bucket/model.tar.gz"},
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "CreationTime": moment(T0),
        **Cloud(FakeClock(ENDED_S)).describe_training_job("demo"),
    }
    listed = {"logStreams": [{"logStreamName": "demo/algo-2-17"}]}
    page = {"events": [{"timestamp": round(1000 * T0), "message": metric(10, 50, 5)}], "nextForwardToken": "f/1"}
    request = {"logGroupName": GROUP, "logStreamName": "demo/algo-2-17", "startFromHead": True}
    with Stubber(sagemaker) as jobs, Stubber(logs) as events:
        jobs.add_response("describe_training_job", whole, {"TrainingJobName": "demo"})
        events.add_response("describe_log_streams", listed, {"logGroupName": GROUP, "logStreamNamePrefix": "demo/"})
        events.add_response("get_log_events", page, request)
        events.add_response("get_log_events", {**page, "events": []}, {**request, "nextToken": "f/1"})
        clock = FakeClock(ENDED_S + 5000)
        found = follow("demo", sagemaker, logs, run_dir=tmp_path, out=io.StringIO(), clock=clock)
        jobs.assert_no_pending_responses()
        events.assert_no_pending_responses()
    assert found.summary.steps == 10 and found.exit_code == 0


@pytest.mark.parametrize("code", ["ResourceNotFound", "ValidationException"])
def test_a_job_that_is_not_there_is_a_clear_error(tmp_path: Path, code: str) -> None:
    sagemaker = boto3.client("sagemaker", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(sagemaker) as jobs:
        jobs.add_client_error("describe_training_job", code, "Requested resource not found.")
        with pytest.raises(UsageError, match="no training job 'gone' in eu-west-1"):
            follow("gone", sagemaker, None, run_dir=tmp_path, out=io.StringIO(), clock=FakeClock())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("answer", "wanted"), [("y", True), ("Yes ", True), ("", False), ("n", False)])
def test_only_yes_is_yes(monkeypatch: pytest.MonkeyPatch, answer: str, wanted: bool) -> None:
    monkeypatch.setattr("builtins.input", lambda question: answer)
    assert followed_module._asked("Stop?") is wanted


def test_ctrl_c_or_the_end_of_input_at_the_question_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (KeyboardInterrupt, EOFError):

        def refuse(question: str, error: type[BaseException] = error) -> str:
            raise error

        monkeypatch.setattr("builtins.input", refuse)
        assert followed_module._asked("Stop?") is False
