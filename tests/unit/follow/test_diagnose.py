"""follow/examination.py, `tfhet diagnose` and `tfhet follow`: the hosts' utilisation by CloudWatch, and the verdict."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")

from botocore.stub import ANY, Stubber  # noqa: E402
from fake_clock import FakeClock  # noqa: E402

from tfhet import aws, catalogue  # noqa: E402
from tfhet.__main__ import main  # noqa: E402
from tfhet.advice import HostUtilisation  # noqa: E402
from tfhet.aws import Patient  # noqa: E402
from tfhet.catalogue import InstanceGroup  # noqa: E402
from tfhet.cluster import HOMOGENEOUS_GROUP  # noqa: E402
from tfhet.follow.examination import METRICS, examine, measured  # noqa: E402
from tfhet.follow.state import JobState  # noqa: E402
from tfhet.messages import MetricLine  # noqa: E402
from tfhet.record import RunFolder  # noqa: E402

T0 = NOW_S = 1_700_000_000.0
BETWEEN_S = (NOW_S - 3590, NOW_S - 1)
GROUPS = (InstanceGroup("dnn_group", "ml.g4dn.12xlarge", 1), InstanceGroup("data_group", "ml.c5.xlarge", 1))
HETEROGENEOUS = JobState("demo", "InProgress", groups=GROUPS)
ALONE = JobState("demo", "InProgress", groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.g4dn.12xlarge", 1),))


class CloudWatch:
    """Answers with values by host and metric, in pages of `per_page` results; keeps the requests."""

    def __init__(self, values: dict[tuple[str, str], list[float]], per_page: int = 100):
        self.values, self.per_page = values, per_page
        self.requests: list[dict[str, Any]] = []

    def get_metric_data(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        results = []
        for query in request["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            host = metric["Dimensions"][0]["Value"].removeprefix("demo/")
            results.append({"Id": query["Id"], "Values": self.values.get((host, metric["MetricName"]), [])})
        place = int(request.get("NextToken", 0))
        more = {"NextToken": str(place + self.per_page)} if place + self.per_page < len(results) else {}
        return {"MetricDataResults": results[place : place + self.per_page], **more}


def look(state: JobState, cloud: Any, told: dict[str, str] | None = None, **times: Any) -> list[HostUtilisation]:
    between_s, now_s = times.get("between_s", BETWEEN_S), times.get("now_s", NOW_S)
    return measured(state, told or {}, cloud, Patient(FakeClock()), catalogue.shipped(), between_s, now_s)


def test_sums_become_shares_of_all_units() -> None:
    kind = catalogue.shipped().instance("ml.g4dn.12xlarge")
    values = {
        ("algo-1", "CPUUtilization"): [0.0, 50.0 * kind.vcpus, 100.0 * kind.vcpus],
        ("algo-1", "GPUUtilization"): [25.0 * kind.gpus],
        ("algo-1", "MemoryUtilization"): [40.0],
    }
    (use,) = look(ALONE, CloudWatch(values))
    assert use.group == HOMOGENEOUS_GROUP and use.instance_type == "ml.g4dn.12xlarge"
    assert use.cpu_pct is not None and use.cpu_pct.samples == (0.0, 50.0, 100.0)
    assert use.gpu_pct is not None and use.gpu_pct.median == 25.0
    assert use.memory_pct is not None and use.memory_pct.median == 40.0
    assert use.disk_pct is None and not use.is_empty
    assert look(ALONE, CloudWatch({}))[0].is_empty


@pytest.mark.parametrize(
    ("introduced", "groups"),
    [({}, ("data_group", "dnn_group")), ({"algo-1": "dnn_group", "algo-2": "data_group"}, ("dnn_group", "data_group"))],
)
def test_hosts_with_gpus_reveal_their_group(introduced: dict[str, str], groups: tuple[str, str]) -> None:
    values = {("algo-2", "GPUUtilization"): [10.0], ("algo-1", "CPUUtilization"): [400.0]}
    first, second = look(HETEROGENEOUS, CloudWatch(values), introduced)
    assert (first.group, second.group) == groups


def test_unknown_type_has_no_cpu_share() -> None:
    state = JobState("demo", "InProgress", groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.new.xlarge", 1),))
    (use,) = look(state, CloudWatch({("algo-1", "CPUUtilization"): [100.0], ("algo-1", "MemoryUtilization"): [7.0]}))
    assert use.cpu_pct is None and use.memory_pct is not None


@pytest.mark.parametrize(
    ("ago_s", "lasted_s", "period_s"),
    [(3600, 3600, 60), (2 * 86400, 86400 + 1, 300), (20 * 86400, 600, 300), (70 * 86400, 600, 3600)],
)
def test_period_is_one_that_cloudwatch_keeps(ago_s: float, lasted_s: float, period_s: int) -> None:
    cloud = CloudWatch({})
    look(ALONE, cloud, between_s=(NOW_S - ago_s, NOW_S - ago_s + lasted_s))
    (request,) = cloud.requests
    assert {query["MetricStat"]["Period"] for query in request["MetricDataQueries"]} == {period_s}
    assert request["StartTime"].timestamp() % period_s == request["EndTime"].timestamp() % period_s == 0
    assert request["StartTime"].timestamp() <= NOW_S - ago_s < request["EndTime"].timestamp()


def test_many_hosts_need_several_calls() -> None:
    count = 120
    values = {
        (f"algo-{n + 1}", name): [float(n)] for n in range(count) for name in ("MemoryUtilization", "DiskUtilization")
    }
    cloud = CloudWatch(values, per_page=199)
    state = JobState("demo", "InProgress", groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.c5.xlarge", count),))
    found = look(state, cloud)
    assert [use.disk_pct.median if use.disk_pct else None for use in found] == [min(100.0, n) for n in range(count)]
    assert max(len(request["MetricDataQueries"]) for request in cloud.requests) == 500 and len(cloud.requests) == 4


def test_requests_are_valid() -> None:
    cloudwatch = boto3.client("cloudwatch", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    asked = {"MetricDataQueries": ANY, "StartTime": ANY, "EndTime": ANY, "ScanBy": "TimestampAscending"}
    at = moment(NOW_S)
    with Stubber(cloudwatch) as stub:
        result = {"Id": "q2", "Label": "memory", "Timestamps": [at], "Values": [12.5], "StatusCode": "PartialData"}
        stub.add_response("get_metric_data", {"MetricDataResults": [result], "NextToken": "more"}, asked)
        rest = {**result, "Values": [13.5], "StatusCode": "Complete"}
        stub.add_response("get_metric_data", {"MetricDataResults": [rest]}, {**asked, "NextToken": "more"})
        (use,) = look(ALONE, cloudwatch)
        stub.assert_no_pending_responses()
    assert list(METRICS)[2] == "memory_pct" and use.memory_pct is not None
    assert use.memory_pct.samples == (12.5, 13.5), "what one page began the next goes on with"


class Cloud(CloudWatch):
    """All services, for one job of one host."""

    def __init__(self, minutes: int = 10, status: str = "Completed"):
        super().__init__({("algo-1", "CPUUtilization"): [380.0, 400.0], ("algo-1", "GPUUtilization"): [30.0]})
        self.meta, self.status = SimpleNamespace(region_name="us-east-1"), status
        metric_lines = (str(MetricLine(10 * (n + 1), 0, 100.0, 640.0, 42.0)) for n in range(minutes))
        self.lines = [(T0 + 300 + 60 * n, line) for n, line in enumerate(metric_lines)]

    def describe_training_job(self, TrainingJobName: str) -> dict[str, Any]:
        has_begun = self.status != "InProgress"
        times = {"TrainingStartTime": moment(T0), "TrainingEndTime": moment(T0 + 1200)} if has_begun else {}
        return {
            "TrainingJobName": TrainingJobName,
            "TrainingJobStatus": self.status,
            "SecondaryStatus": self.status if has_begun else "Downloading",
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
            **times,
        }

    def describe_log_streams(self, **request: Any) -> dict[str, Any]:
        return {"logStreams": [{"logStreamName": "demo/algo-1-1700"}] if self.lines else []}

    def get_log_events(self, startFromHead: bool, nextToken: str = "", **request: Any) -> dict[str, Any]:
        events = [{"timestamp": round(1000 * at_s), "message": text} for at_s, text in self.lines]
        return {"events": [] if nextToken else events, "nextForwardToken": "f", "nextBackwardToken": "b"}


def moment(at_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC)


def run(monkeypatch: pytest.MonkeyPatch, cloud: Cloud, *words: str) -> int:
    monkeypatch.setattr(aws, "client", lambda service, region: cloud)
    return main(words)


def diagnosed(monkeypatch: pytest.MonkeyPatch, cloud: Cloud, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "found.json"
    assert run(monkeypatch, cloud, "diagnose", "demo", "--wide", "--json", str(file)) == 0
    return dict(json.loads(file.read_text()))


def test_diagnosis_has_hosts_verdict_and_advice(monkeypatch, capsys, tmp_path: Path) -> None:
    found = diagnosed(monkeypatch, Cloud(), tmp_path)
    assert (found["job"], found["kind"], found["schema"]) == ("demo", "input-bound", 1)
    assert found["hosts"][0]["cpu_pct"]["samples"] == [95.0, 100.0] and found["hosts"][0]["disk_pct"] is None
    kinds = [each["kind"] for each in found["findings"]]
    assert kinds[:2] == ["input_bound", "waited"] and {"profile_first", "bigger", "data_group"} <= set(kinds)
    out = capsys.readouterr().out
    assert "97.5 (96 to 100)" in out and "ml.g5.xlarge" in out
    shown = [found["verdict"], *found["evidence"], *found["levers"], *found["next_run"]]
    assert all(sentence in out for sentence in shown) and len(found["levers"]) == 3


def test_diagnosis_separates_epoch_starts(monkeypatch, tmp_path: Path) -> None:
    cloud = Cloud()
    times = [(600.0, 83.3) if n in (4, 8) else (100.0, 1.0) for n in range(13)]
    lines = [MetricLine(10 * (n + 1), n // 4, step_ms, 640.0, pct) for n, (step_ms, pct) in enumerate(times)]
    cloud.lines = [(T0 + 300 + 60 * n, str(line)) for n, line in enumerate(lines)]
    found = diagnosed(monkeypatch, cloud, tmp_path)
    assert found["kind"] == "not input-bound" and found["findings"][0]["kind"] == "keeps_up"
    assert "45.3 %" in found["verdict"] and "1.83 times" in found["verdict"]
    assert "bridge_epochs" in [each["kind"] for each in found["findings"]]


def test_diagnosis_of_a_job_before_training(monkeypatch, capsys, tmp_path: Path) -> None:
    cloud = Cloud(minutes=0, status="InProgress")
    found = diagnosed(monkeypatch, cloud, tmp_path)
    assert found["findings"][0]["kind"] == "nothing_yet" and "algo-1" not in capsys.readouterr().out
    assert cloud.requests == [], "CloudWatch has nothing"


@pytest.mark.parametrize(("minutes", "begin_s", "end_s"), [(10, T0 + 300, T0 + 840), (2, T0, T0 + 1200)])
def test_only_training_time_is_examined(minutes: int, begin_s: float, end_s: float) -> None:
    cloud = Cloud(minutes)
    examine("demo", cloud, cloud, cloud, known=catalogue.shipped(), clock=FakeClock(T0 + 5000))
    (request,) = cloud.requests
    assert 0 <= begin_s - request["StartTime"].timestamp() < 60
    assert 0 <= request["EndTime"].timestamp() - end_s < 60


def test_follow_ends_with_the_code_of_the_job(monkeypatch, capsys, tmp_path: Path) -> None:
    folder, file = tmp_path / "run", tmp_path / "summary.json"
    words = ("follow", "demo", "--run_dir", str(folder), "--json", str(file))
    assert run(monkeypatch, Cloud(), *words) == 0
    assert "algo-1 | [tfhet] step=100" in capsys.readouterr().out
    assert RunFolder(folder).read_summary().steps == json.loads(file.read_text())["steps"] == 100
    assert run(monkeypatch, Cloud(status="Failed"), *words) == 1
