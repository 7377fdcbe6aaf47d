"""The diagnosis of a training job from SageMaker, its log and CloudWatch.

SageMaker publishes CPU, GPU, memory and disk use of each instance per minute, under the dimension Host = JOB/algo-N.
The CPU and GPU values are sums over the CPUs or GPUs of an instance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tfhet import catalogue, clock as clocks
from tfhet.advice import Diagnosis, HostUtilisation, ObservedJob, of_training_job, sentence, sentences
from tfhet.aws import Patient
from tfhet.follow.heard import Heard, placed
from tfhet.follow.log_streams import LogStreams
from tfhet.follow.state import JobState
from tfhet.record import Spread, StepTime, Waiting, json_value, median
from tfhet.report import number

SCHEMA = 1
COLUMNS = ("host", "group", "type", "CPU %", "GPU %", "memory %", "GPU memory %", "disk %")
LEAST_TRAINED_S = 180.0
"""If metric lines span at least this, only the time between the first and last counts."""
METRICS: Mapping[str, str] = {
    "cpu_pct": "CPUUtilization",
    "gpu_pct": "GPUUtilization",
    "memory_pct": "MemoryUtilization",
    "gpu_memory_pct": "GPUMemoryUtilization",
    "disk_pct": "DiskUtilization",
}
_QUERIES = 500
_DAY_S = 86400


@dataclass(frozen=True)
class Examined:
    state: JobState
    hosts: Sequence[HostUtilisation]
    diagnosis: Diagnosis

    @property
    def rows(self) -> list[list[object]]:
        """A row per host by COLUMNS: medians with the tenth and ninetieth percentile."""
        words = ([_in_words(getattr(use, name)) for name in METRICS] for use in self.hosts)
        pairs = zip(self.hosts, words, strict=True)
        return [[use.host, use.group or None, use.instance_type or None, *found] for use, found in pairs]

    def to_json(self) -> dict[str, Any]:
        """Returns the diagnosis as JSON values, with raw samples."""
        found = self.diagnosis
        return {
            "schema": SCHEMA,
            "job": self.state.name,
            "status": self.state.status,
            "kind": found.state.value,
            "verdict": sentence(found.verdict),
            "evidence": sentences(found.evidence),
            "levers": sentences(found.levers),
            "next_run": sentences(found.next_run),
            "findings": [each.to_json() for each in (found.verdict, *found.evidence, *found.levers, *found.next_run)],
            "hosts": [json_value(vars(use)) for use in self.hosts],
        }


def _in_words(spread: Spread | None) -> str | None:
    return None if spread is None else f"{number(spread.median)} ({spread.p10:.0f} to {spread.p90:.0f})"


def examine(
    job_name: str,
    sagemaker: Any,
    logs: Any,
    cloudwatch: Any,
    *,
    known: catalogue.Catalogue | None = None,
    clock: clocks.Clock = clocks.SYSTEM,
) -> Examined:
    """Diagnoses a training job with boto3's clients of three services. known: instance types; None for the default
    catalogue. Raises UsageError if the job does not exist or the credentials lack the right to see it, NotReady if AWS
    does not answer."""
    aws, known = Patient(clock), known or catalogue.default()
    state = JobState.ask(job_name, sagemaker, aws)
    heard = Heard()
    for line in LogStreams(job_name, logs, aws).peek():
        heard.hear(line)
    now_s = clock.wall()
    hosts: list[HostUtilisation] = []
    if state.started_s is not None:
        between_s = (state.started_s, max(state.ended_s or now_s, state.started_s))
        if heard.trained_ms is not None and heard.trained_ms[1] - heard.trained_ms[0] >= 1000 * LEAST_TRAINED_S:
            between_s = (heard.trained_ms[0] / 1000, heard.trained_ms[1] / 1000)
        hosts = measured(state, heard.groups, cloudwatch, aws, known, between_s, now_s)
    lines = heard.steps[1:] or heard.steps  # the first includes the warm-up
    spans = [after.step - line.step for line, after in itertools.pairwise(heard.steps)]
    times_s = [(line.step_ms / 1e3, line.wait_pct / 100, line.epoch) for line in lines]
    steps = [StepTime(step_s, step_s * share, epoch=epoch) for step_s, share, epoch in times_s]
    waits = Waiting.of(steps, stretch=median(spans) if spans else 1)
    job = ObservedJob(
        name=state.name,
        status=state.status if state.is_over else str(state).rstrip(". "),
        is_over=state.is_over,
        groups=state.groups,
        hosts=hosts,
        wait_pct=waits.steady_pct,
        waits=waits,
        metric_lines=len(lines),
        has_step_timeline=state.hyperparameter("timeline") == "steps",
    )
    return Examined(state, hosts, of_training_job(job, known))


def measured(
    state: JobState,
    named_groups: Mapping[str, str],
    cloudwatch: Any,
    aws: Patient,
    known: catalogue.Catalogue,
    between_s: tuple[float, float],
    now_s: float,
) -> list[HostUtilisation]:
    """Returns the utilisation of each host; hosts that CloudWatch does not know have no values. named_groups: groups by
    host, as launchers named them. between_s: the time that counts, in seconds since 1970."""
    hosts = [f"algo-{number + 1}" for number in range(state.hosts)]
    samples = _samples(state.name, hosts, cloudwatch, aws, between_s, now_s)
    groups = {group.name: group for group in state.groups}
    types = {group.name: kind for group in state.groups if (kind := known.find(group.instance_type))}
    seen: dict[str, str] = {}
    with_gpus = [host for host in hosts if samples[host, "gpu_pct"]]
    having = [group for group in state.groups if group.name in types and types[group.name].gpus]
    if len(having) == 1 and len(with_gpus) == having[0].count and len(types) == len(groups):
        seen = dict.fromkeys(with_gpus, having[0].name)  # they are the hosts of the only group with GPUs
    places = placed(state.groups, {**seen, **named_groups}, hosts)
    found = []
    for host in hosts:
        name = places.get(host, "")
        cpus, gpus = (types[name].vcpus, types[name].gpus) if name in types else (0, 0)
        units = {"cpu_pct": cpus, "gpu_pct": gpus, "memory_pct": 1, "gpu_memory_pct": gpus, "disk_pct": 1}
        spreads = {
            field: Spread.of([min(100.0, value / units[field]) for value in samples[host, field]])
            for field in METRICS
            if units[field] and samples[host, field]
        }
        found.append(HostUtilisation(host, name, groups[name].instance_type if name else "", **spreads))
    return found


def _samples(
    job: str, hosts: Sequence[str], cloudwatch: Any, aws: Patient, between_s: tuple[float, float], now_s: float
) -> dict[tuple[str, str], list[float]]:
    """Returns CloudWatch's means over time, by host and field."""
    period_s = _period_s(between_s, now_s)
    begin, end = math.floor(between_s[0] / period_s) * period_s, math.ceil(between_s[1] / period_s) * period_s
    found: dict[tuple[str, str], list[float]] = {name: [] for name in itertools.product(hosts, METRICS)}
    names = list(found)
    for start in range(0, len(names), _QUERIES):
        numbered = list(enumerate(names))[start : start + _QUERIES]
        request: dict[str, Any] = {
            "MetricDataQueries": [_query(f"q{number}", job, *name, period_s) for number, name in numbered],
            "StartTime": datetime.fromtimestamp(begin, UTC),
            "EndTime": datetime.fromtimestamp(max(end, begin + period_s), UTC),
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


def _query(query: str, job: str, host: str, field: str, period_s: int) -> dict[str, Any]:
    metric = {
        "Namespace": "/aws/sagemaker/TrainingJobs",
        "MetricName": METRICS[field],
        "Dimensions": [{"Name": "Host", "Value": f"{job}/{host}"}],
    }
    return {"Id": query, "MetricStat": {"Metric": metric, "Period": period_s, "Stat": "Average"}}


def _period_s(between_s: tuple[float, float], now_s: float) -> int:
    """Returns the shortest period available: CloudWatch keeps 1-minute means for 15 days, 5-minute means for 63."""
    age_s, lasted_s = now_s - between_s[0], between_s[1] - between_s[0]
    if age_s > 63 * _DAY_S:
        return 3600
    return 300 if age_s > 15 * _DAY_S or lasted_s > _DAY_S else 60
