"""follow/examination.py: what hosts used, as CloudWatch tells, in percent of what they have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")

from botocore.stub import ANY, Stubber  # noqa: E402
from fake_clock import FakeClock  # noqa: E402

from tfhet import catalogue  # noqa: E402
from tfhet.advice import HostUtilisation  # noqa: E402
from tfhet.aws import Patient  # noqa: E402
from tfhet.catalogue import InstanceGroup  # noqa: E402
from tfhet.cluster import HOMOGENEOUS_GROUP  # noqa: E402
from tfhet.follow.examination import METRICS, measured  # noqa: E402
from tfhet.follow.state import JobState  # noqa: E402

NOW_S = 1_700_000_000.0
BETWEEN_S = (NOW_S - 3590, NOW_S - 1)
GROUPS = (InstanceGroup("dnn_group", "ml.g4dn.12xlarge", 1), InstanceGroup("data_group", "ml.c5.xlarge", 1))
HETEROGENEOUS = JobState("demo", "InProgress", groups=GROUPS)
ALONE = JobState("demo", "InProgress", groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.g4dn.12xlarge", 1),))


class CloudWatch:
    """Answers with values by host and metric, in pages of so many results; keeps the requests."""

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


def test_sums_over_cpus_and_gpus_become_shares_of_all_of_them() -> None:
    kind = catalogue.shipped().instance("ml.g4dn.12xlarge")
    values = {
        ("algo-1", "CPUUtilization"): [0.0, 50.0 * kind.vcpus, 100.0 * kind.vcpus],
        ("algo-1", "GPUUtilization"): [25.0 * kind.gpus],
        ("algo-1", "MemoryUtilization"): [40.0],
    }
    (use,) = look(ALONE, CloudWatch(values))
    assert use.group == HOMOGENEOUS_GROUP and use.instance_type == "ml.g4dn.12xlarge"
    assert use.cpu_pct is not None and use.cpu_pct.samples == (0.0, 50.0, 100.0) and use.cpu_pct.median == 50.0
    assert use.gpu_pct is not None and use.gpu_pct.median == 25.0
    assert use.memory_pct is not None and use.memory_pct.median == 40.0
    assert use.disk_pct is None and not use.is_empty


def test_a_host_of_which_nothing_is_known_is_empty() -> None:
    (use,) = look(ALONE, CloudWatch({}))
    assert use.is_empty


def test_the_host_that_has_gpus_is_in_the_only_group_with_gpus() -> None:
    values = {("algo-2", "GPUUtilization"): [10.0], ("algo-1", "CPUUtilization"): [400.0]}
    first, second = look(HETEROGENEOUS, CloudWatch(values))
    assert (first.group, second.group) == ("data_group", "dnn_group")
    assert first.cpu_pct is not None and first.cpu_pct.median == 100.0, "of 4 vCPUs"


def test_what_launchers_said_counts_more_than_what_is_seen() -> None:
    values = {("algo-2", "GPUUtilization"): [10.0]}
    first, second = look(HETEROGENEOUS, CloudWatch(values), {"algo-1": "dnn_group", "algo-2": "data_group"})
    assert (first.group, second.group) == ("dnn_group", "data_group")


def test_a_host_whose_type_is_not_known_has_no_share_of_cpus() -> None:
    state = JobState("demo", "InProgress", groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.new.xlarge", 1),))
    (use,) = look(state, CloudWatch({("algo-1", "CPUUtilization"): [100.0], ("algo-1", "MemoryUtilization"): [7.0]}))
    assert use.cpu_pct is None and use.memory_pct is not None


@pytest.mark.parametrize(
    ("ago_s", "lasted_s", "period_s"),
    [(3600, 3600, 60), (2 * 86400, 86400 + 1, 300), (20 * 86400, 600, 300), (70 * 86400, 600, 3600)],
)
def test_the_period_is_what_cloudwatch_still_has(ago_s: float, lasted_s: float, period_s: int) -> None:
    cloud = CloudWatch({})
    look(ALONE, cloud, between_s=(NOW_S - ago_s, NOW_S - ago_s + lasted_s))
    (request,) = cloud.requests
    assert {query["MetricStat"]["Period"] for query in request["MetricDataQueries"]} == {period_s}
    assert request["StartTime"].timestamp() % period_s == request["EndTime"].timestamp() % period_s == 0
    assert request["StartTime"].timestamp() <= NOW_S - ago_s < request["EndTime"].timestamp()


def test_many_hosts_are_asked_for_in_several_calls_of_several_pages() -> None:
    count = 120
    values = {
        (f"algo-{n + 1}", name): [float(n)] for n in range(count) for name in ("MemoryUtilization", "DiskUtilization")
    }
    cloud = CloudWatch(values, per_page=199)
    state = JobState("demo", "InProgress", groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.c5.xlarge", count),))
    found = look(state, cloud)
    assert [use.disk_pct.median if use.disk_pct else None for use in found] == [min(100.0, n) for n in range(count)]
    assert max(len(request["MetricDataQueries"]) for request in cloud.requests) == 500 and len(cloud.requests) == 4


def test_the_requests_are_what_cloudwatch_takes() -> None:
    cloudwatch = boto3.client("cloudwatch", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    asked = {"MetricDataQueries": ANY, "StartTime": ANY, "EndTime": ANY, "ScanBy": "TimestampAscending"}
    at = datetime.fromtimestamp(NOW_S, UTC)
    with Stubber(cloudwatch) as stub:
        result = {"Id": "q2", "Label": "memory", "Timestamps": [at], "Values": [12.5], "StatusCode": "PartialData"}
        stub.add_response("get_metric_data", {"MetricDataResults": [result], "NextToken": "more"}, asked)
        rest = {**result, "Values": [13.5], "StatusCode": "Complete"}
        stub.add_response("get_metric_data", {"MetricDataResults": [rest]}, {**asked, "NextToken": "more"})
        (use,) = look(ALONE, cloudwatch)
        stub.assert_no_pending_responses()
    assert list(METRICS)[2] == "memory_pct" and use.memory_pct is not None
    assert use.memory_pct.samples == (12.5, 13.5), "what one page began the next goes on with"
