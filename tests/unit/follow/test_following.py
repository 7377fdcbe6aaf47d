"""follow/following.py: a job followed to its end, with late, repeated and unordered lines."""

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
from tfhet.messages import FirstBatchLine, HostLine, MetricLine, RestartLine, StepPartsLine  # noqa: E402
from tfhet.record import RunFolder, RunSummary  # noqa: E402
from tfhet.report import place_of  # noqa: E402
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
    # visible at, stream, printed at, text; seconds since T0
    (100, "algo-2-1700", 95, "toolkit: starting"),
    (100, "algo-2-1700", 96, DNN),
    (110, "algo-2-1700", 101, f"[algo-2/0] {FirstBatchLine(3.25)}"),
    (131, "algo-2-1700", 130, metric(100, 200, 60)),
    (164, "algo-2-1700", 160, "behind the late one"),
    (167, "algo-2-1700", 159, "late"),
    (170, "algo-1-1702", 95, DATA),
    (170, "algo-1-1702", 140, f"[algo-1] {RestartLine('worker-1', -9)}"),
    (171, "algo-1-1702", 141, "the same"),
    (171, "algo-1-1702", 141, "the same"),
    (231, "algo-2-1700", 230, metric(200, 100, 20)),
    (331, "algo-2-1700", 330, metric(300, 100, 10)),
    (331, "algo-2-1700", 330, f"[algo-2/0] {StepPartsLine({'wait': 10.0, 'copy': 5.0, 'compute': 85.0})}"),
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
        self.refusal: ClientError | None = None
        """Raised by a request to stop, which takes effect nevertheless."""
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
        if self.refusal:
            raise self.refusal

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
    """A clock that raises KeyboardInterrupt at some times."""

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


def test_each_line_is_shown_once_in_order(tmp_path: Path) -> None:
    clock = FakeClock(T0)
    cloud = Cloud(clock)
    cloud.busy = 5
    found, out = run(tmp_path, cloud, clock)
    assert found.exit_code == 0 and cloud.busy == 0
    shown = [line.partition(" | ") for line in out.splitlines() if " | " in line]
    assert Counter(text for _, _, text in shown) == Counter(place_of(text)[1] for *_, text in RECORDED)
    at_s = {place_of(text)[1]: at_s for _, _, at_s, text in RECORDED}
    for host in ("algo-1", "algo-2"):
        times = [at_s[text] for who, _, text in shown if who.startswith(host)]
        assert times == sorted(times) and times
    assert ("algo-2 dnn_group", " | ", "late") in shown and ("algo-1 data_group", " | ", "the same") in shown
    assert found.folder.log_tail("algo-1", 1) == ["the last word comes when the job is over"]


def test_record_of_a_paid_run(tmp_path: Path) -> None:
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
    assert not RunView.of(summary).is_simulated and RunView.of(RunSummary(status="Completed")).is_simulated


def test_failed_job_has_cause_and_cost(tmp_path: Path) -> None:
    clock = FakeClock(ENDED_S + 1000)
    reason = "AlgorithmError: rank 1 on algo-2 was killed, exit code: 137"
    found, out = run(tmp_path, Cloud(clock, "Failed", reason), clock)
    assert found.exit_code == 1 and found.summary.exit_code == 137
    assert found.summary.failure_reason == found.summary.cause == reason
    assert reason in out and "$0.200" in out


def test_old_job_is_read_at_once(tmp_path: Path) -> None:
    for _ in range(2):  # the second time writes the logs again
        clock = FakeClock(ENDED_S + 5000)
        found, out = run(tmp_path, Cloud(clock), clock)
        assert clock.wall() == ENDED_S + 5000
        assert out.count(" | ") == len(RECORDED) and found.summary.steps == 300
    lines = (found.folder.logs_path / "algo-2.log").read_text().splitlines()
    assert len(lines) == sum(stream == "algo-2-1700" for _, stream, *_ in RECORDED)


@pytest.mark.parametrize("ask", [None, lambda question: False])
def test_interrupt_leaves_the_job_running(tmp_path: Path, ask: Any) -> None:
    clock = Interrupted(T0, T0 + 300)
    cloud = Cloud(clock)
    found, out = run(tmp_path, cloud, clock, ask=ask)
    assert cloud.stopped_s is None and found.exit_code == 130
    assert "tfhet follow demo" in out and ("stop-training-job" in out) == (ask is None)
    assert found.summary.exit_code is None and found.summary.steps == 200, "the record of the lines so far"


ENDED = ClientError({"Error": {"Code": "ValidationException", "Message": "not in progress"}}, "StopTrainingJob")


@pytest.mark.parametrize("refusal", [None, ENDED])
def test_confirmed_interrupt_stops_the_job(tmp_path: Path, refusal: ClientError | None) -> None:
    clock, asked = Interrupted(T0, T0 + 300), list[str]()
    cloud = Cloud(clock)
    cloud.refusal = refusal
    found, _ = run(tmp_path, cloud, clock, ask=lambda question: asked.append(question) is None)
    assert cloud.stopped_s == pytest.approx(T0 + 300, abs=5) and len(asked) == 1
    assert found.summary.status == "Stopped" and found.exit_code == 1 and found.summary.billable_s is not None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_shows_table_and_question(tmp_path: Path) -> None:
    clock, out = Interrupted(T0, T0 + 300), Terminal()
    asked: list[str] = []
    cloud = Cloud(clock)

    def ask(question: str) -> bool:
        asked.append(out.getvalue())
        return True

    found = follow("demo", cloud, cloud, run_dir=tmp_path, out=out, ask=ask, price_of=price, clock=clock)
    written = out.getvalue()
    assert "algo-1 data_group\x1b[0m | the same" in written and "waiting for data" in written
    assert "step_ms=100.0" not in written, "metric lines are in the table only"
    assert len(asked) == 1 and found.summary.status == "Stopped" and written.startswith(asked[0])


def test_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    clock = Interrupted(T0, T0 + 300, T0 + 310)
    found, out = run(tmp_path, Cloud(clock), clock, ask=lambda question: True)
    assert found.summary.exit_code is None and "Stopping" in out


def test_stop_and_follow_have_deadlines(tmp_path: Path) -> None:
    clock = Interrupted(T0, T0 + 300)
    cloud = Cloud(clock)
    cloud.stop_takes_s = 2 * STOP_S
    with pytest.raises(NotReady, match=f"Stopping.* {STOP_S:g} s"):
        run(tmp_path, cloud, clock, ask=lambda question: True)
    assert RunFolder(tmp_path / "demo").read_summary().steps == 300, "the record is written"
    clock = FakeClock(T0)
    with pytest.raises(NotReady, match="InProgress.* 100 s"):
        run(tmp_path, Cloud(clock), clock, deadline_s=100)
    assert clock.wall() == pytest.approx(T0 + 100, abs=5)


def test_requests_are_valid(tmp_path: Path) -> None:
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
def test_unknown_job_is_refused(tmp_path: Path, code: str) -> None:
    sagemaker = boto3.client("sagemaker", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(sagemaker) as jobs:
        jobs.add_client_error("describe_training_job", code, "Requested resource not found.")
        with pytest.raises(UsageError, match="'gone' in eu-west-1"):
            follow("gone", sagemaker, None, run_dir=tmp_path, out=io.StringIO(), clock=FakeClock())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [("y", True), ("Yes ", True), ("", False), ("n", False), (KeyboardInterrupt, False), (EOFError, False)],
)
def test_only_yes_is_yes(monkeypatch: pytest.MonkeyPatch, answer: Any, wanted: bool) -> None:
    def reply(question: str) -> str:
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("builtins.input", reply)
    assert followed_module._asked("Stop?") is wanted
