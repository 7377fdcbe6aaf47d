"""How much of its hosts a training job uses, as CloudWatch has measured it, minute by minute.

SageMaker publishes CPU, GPU, memory and disk of each instance, under the dimension Host = JOB/algo-N; nothing of the
network. CPUUtilization and the two of GPUs are sums over all CPUs, or GPUs, of an instance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from tfhet.advice import HostUtilisation
from tfhet.aws import Patient
from tfhet.catalogue import Catalogue, Instance, InstanceGroup
from tfhet.errors import UsageError
from tfhet.follow.heard import placed
from tfhet.follow.state import JobState
from tfhet.record import Spread

NAMESPACE = "/aws/sagemaker/TrainingJobs"
MINUTE_S = 60
DAY_S = 86400
_QUERIES = 500
"""Maximum number of queries in one call."""
METRICS: Mapping[str, str] = {
    "cpu_pct": "CPUUtilization",
    "gpu_pct": "GPUUtilization",
    "memory_pct": "MemoryUtilization",
    "gpu_memory_pct": "GPUMemoryUtilization",
    "disk_pct": "DiskUtilization",
}
"""CloudWatch's name of each field."""


def measured(
    state: JobState,
    known_groups: Mapping[str, str],
    cloudwatch: Any,
    aws: Patient,
    known: Catalogue,
    between_s: tuple[float, float],
    now_s: float,
) -> list[HostUtilisation]:
    """What each host of a job used, in order; empty of a host of which CloudWatch has nothing.

    known_groups: by host, as their launchers said. cloudwatch: boto3's client of that service. between_s: of which
    time, seconds since 1970. Raises as `Patient` does.
    """
    hosts = [f"algo-{number + 1}" for number in range(state.hosts)]
    samples = _samples(state.name, hosts, cloudwatch, aws, between_s, now_s)
    kinds = {group.name: _kind(group.instance_type, known) for group in state.groups}
    with_gpus = {host for host in hosts if samples.get((host, "gpu_pct"))}
    places = placed(state.groups, _by_gpus(state.groups, kinds, with_gpus, hosts) | dict(known_groups), hosts)
    types = {group.name: group.instance_type for group in state.groups}
    found = []
    for host in hosts:
        group = places.get(host, "")
        kind = kinds.get(group)
        of = {"cpu_pct": kind.vcpus if kind else 0, "memory_pct": 1, "disk_pct": 1}
        of |= dict.fromkeys(("gpu_pct", "gpu_memory_pct"), kind.gpus if kind else 0)
        spreads = {
            field: Spread.of([min(100.0, value / of[field]) for value in samples[host, field]])
            for field in METRICS
            if of[field] and samples.get((host, field))
        }
        found.append(HostUtilisation(host, group, types.get(group, ""), **spreads))
    return found


def _kind(instance_type: str, known: Catalogue) -> Instance | None:
    try:
        return known.instance(instance_type)
    except UsageError:
        return None


def _by_gpus(
    groups: Sequence[InstanceGroup],
    kinds: Mapping[str, Instance | None],
    with_gpus: set[str],
    hosts: Sequence[str],
) -> dict[str, str]:
    """The hosts of the only group with GPUs, where CloudWatch has seen some on just as many hosts."""
    having = [group for group in groups if (kind := kinds[group.name]) and kind.gpus]
    if len(having) == 1 and len(with_gpus) == having[0].count and None not in kinds.values():
        return {host: having[0].name for host in hosts if host in with_gpus}
    return {}


def _samples(
    job: str,
    hosts: Sequence[str],
    cloudwatch: Any,
    aws: Patient,
    between_s: tuple[float, float],
    now_s: float,
) -> dict[tuple[str, str], list[float]]:
    """By host and field the means, in the order of time."""
    period_s = _period_s(between_s, now_s)
    begin, end = math.floor(between_s[0] / period_s) * period_s, math.ceil(between_s[1] / period_s) * period_s
    names = [(host, field) for host in hosts for field in METRICS]
    found: dict[tuple[str, str], list[float]] = {name: [] for name in names}
    for start in range(0, len(names), _QUERIES):
        queries = [_query(f"q{start + n}", job, name, period_s) for n, name in enumerate(names[start:][:_QUERIES])]
        request: dict[str, Any] = {
            "MetricDataQueries": queries,
            "StartTime": datetime.fromtimestamp(begin, timezone.utc),
            "EndTime": datetime.fromtimestamp(max(end, begin + period_s), timezone.utc),
            "ScanBy": "TimestampAscending",
        }
        while True:
            page = aws(cloudwatch.get_metric_data, **request)
            for result in page.get("MetricDataResults", ()):
                found[names[int(result["Id"][1:])]] += [float(value) for value in result.get("Values", ())]
            if not page.get("NextToken"):
                break
            request["NextToken"] = page["NextToken"]
    return found


def _query(name: str, job: str, wanted: tuple[str, str], period_s: int) -> dict[str, Any]:
    host, field = wanted
    dimensions = [{"Name": "Host", "Value": f"{job}/{host}"}]
    metric = {"Namespace": NAMESPACE, "MetricName": METRICS[field], "Dimensions": dimensions}
    return {"Id": name, "MetricStat": {"Metric": metric, "Period": period_s, "Stat": "Average"}}


def _period_s(between_s: tuple[float, float], now_s: float) -> int:
    """CloudWatch keeps means over 5 minutes for 63 days, those over one minute for 15."""
    age_s, lasted_s = now_s - between_s[0], between_s[1] - between_s[0]
    if age_s > 63 * DAY_S:
        return 3600
    return 300 if age_s > 15 * DAY_S or lasted_s > DAY_S else MINUTE_S
