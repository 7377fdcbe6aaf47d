"""CloudWatch alarms of a training job: it waits for data, a host is silent, or it costs more than its budget.

All of them use metrics that SageMaker publishes of each training job: `wait_pct` by the metric definitions of the
request, and the CPU utilisation of each host. No alarm is raised before the job starts and after it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfhet.advice import INPUT_BOUND_PCT
from tfhet.catalogue import Catalogue
from tfhet.errors import UsageError
from tfhet.schema import checked
from tfhet.submit import values
from tfhet.submit.cost import usd_per_hour
from tfhet.submit.job import Job
from tfhet.units import HOUR_S

NAMESPACE = "/aws/sagemaker/TrainingJobs"
WAIT_PERIOD_S, WAIT_PERIODS = 300, 3
"""An epoch start or a stall is shorter than this; a job that waits all the time is not."""
SILENT_PERIOD_S, SILENT_PERIODS = 60, 10
"""Period of SageMaker's metrics of hosts, and minutes without any after which a host counts as silent."""
DAY_S, WEEK_S = 86_400, 604_800
"""Time over which CloudWatch evaluates an alarm at most: with periods below an hour, and from an hour up."""


@dataclass(frozen=True)
class Alarms:
    """Bounds of the alarms. Raises UsageError for a topic that is no ARN of SNS."""

    wait_pct: float = INPUT_BOUND_PCT
    """Share of the steps that waits for data, 0 to 100."""
    budget_usd: float | None = None
    """None: no alarm for the cost."""
    topic: str | None = None
    """ARN of the SNS topic that gets messages; None: the alarms are only shown."""

    def __post_init__(self) -> None:
        if self.topic is not None:
            checked(self.topic, values.Topic, "--alarm_topic")

    def requests(self, job: Job, name: str, known: Catalogue) -> dict[str, dict[str, Any]]:
        """Returns the arguments of boto3's `put_metric_alarm` by a short name of each alarm.

        Args:
            job: The job.
            name: Name of its training job.
            known: Prices, for the budget.

        Raises:
            UsageError: The budget cannot be watched: a price is unknown, or it is too small or too large.
        """
        hosts = [f"algo-{number + 1}" for number in range(sum(group.count for group in job.groups.values()))]
        found = {"Waiting": self._waiting(name), **dict(_silent(name, hosts))}
        if self.budget_usd is not None:
            usd, is_spot = usd_per_hour(job, known), job.spot is not None
            found["Cost"] = _cost(name, hosts[0], self.budget_usd, usd, is_spot=is_spot)
        actions = {"AlarmActions": [self.topic]} if self.topic else {}
        return {
            short: {"AlarmName": f"{name}-{short.lower()}", **more, "TreatMissingData": "notBreaching", **actions}
            for short, more in found.items()
        }

    def template(self, job: Job, name: str, known: Catalogue) -> dict[str, Any]:
        """Returns a CloudFormation template with the alarms. Raises as `requests`."""
        alarms = self.requests(job, name, known).items()
        return {
            "AWSTemplateFormatVersion": "2010-09-09",
            "Description": f"Alarms of the training job {name}. Delete the stack when the job has ended.",
            "Resources": {short: {"Type": "AWS::CloudWatch::Alarm", "Properties": each} for short, each in alarms},
        }

    def _waiting(self, name: str) -> dict[str, Any]:
        return {
            "AlarmDescription": f"{name} waits for its data for more than {self.wait_pct:g} % of the time",
            "Namespace": NAMESPACE,
            "MetricName": "wait_pct",
            "Dimensions": [{"Name": "TrainingJobName", "Value": name}],
            "Statistic": "Average",
            "Period": WAIT_PERIOD_S,
            "EvaluationPeriods": WAIT_PERIODS,
            "DatapointsToAlarm": WAIT_PERIODS,
            "Threshold": self.wait_pct,
            "ComparisonOperator": "GreaterThanThreshold",
        }


def _silent(name: str, hosts: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields an alarm for each host that sends nothing while another one does. A host alone has no alarm: SageMaker
    ends its job."""
    for index, host in enumerate(hosts if hosts[1:] else ()):
        other = hosts[0] if index else hosts[1]
        expression = "IF(FILL(other, -1) >= 0 AND FILL(own, -1) < 0, 1, 0)"
        yield (
            f"Silent{index + 1}",
            {
                "AlarmDescription": f"{host} of {name} has sent no metrics for {SILENT_PERIODS} minutes, {other} has",
                "Metrics": [
                    {"Id": "silent", "Expression": expression, "Label": f"{host} is silent", "ReturnData": True},
                    _cpu("own", name, host),
                    _cpu("other", name, other),
                ],
                "EvaluationPeriods": SILENT_PERIODS,
                "DatapointsToAlarm": SILENT_PERIODS,
                "Threshold": 1.0,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            },
        )


def _cost(name: str, host: str, budget_usd: float, usd_per_hour: float, *, is_spot: bool) -> dict[str, Any]:
    """Returns an alarm for a job that has run as long as the budget pays for: in so many periods a host sent metrics.
    A spot job may pause, so it is counted by the hour over a week."""
    paid_s = HOUR_S * budget_usd / usd_per_hour
    period_s, window_s = (300, DAY_S) if paid_s <= DAY_S and not is_spot else (3600, WEEK_S)
    periods = int(paid_s // period_s)
    if not 1 <= periods <= window_s // period_s:
        allowed = usd_per_hour * period_s / HOUR_S, usd_per_hour * WEEK_S / HOUR_S
        raise UsageError(
            f"--budget_usd {budget_usd:g} pays for {paid_s / HOUR_S:.3g} h of this job, which CloudWatch cannot watch: "
            f"set it to {allowed[0]:.3g} to {allowed[1]:.3g} USD"
        )
    return {
        "AlarmDescription": f"{name} has cost {budget_usd:g} USD, on demand at {usd_per_hour:.4g} USD per hour",
        "Namespace": NAMESPACE,
        "MetricName": "CPUUtilization",
        "Dimensions": [_host(name, host)],
        "Statistic": "SampleCount",
        "Period": period_s,
        "EvaluationPeriods": window_s // period_s,
        "DatapointsToAlarm": periods,
        "Threshold": 1.0,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    }


def _cpu(query: str, name: str, host: str) -> dict[str, Any]:
    metric = {"Namespace": NAMESPACE, "MetricName": "CPUUtilization", "Dimensions": [_host(name, host)]}
    stat = {"Metric": metric, "Period": SILENT_PERIOD_S, "Stat": "Average"}
    return {"Id": query, "MetricStat": stat, "ReturnData": False}


def _host(name: str, host: str) -> dict[str, str]:
    return {"Name": "Host", "Value": f"{name}/{host}"}
