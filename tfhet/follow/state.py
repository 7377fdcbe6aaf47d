"""A training job as SageMaker describes it, and its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tfhet import catalogue
from tfhet.aws import AwsRefused, Patient
from tfhet.catalogue import InstanceGroup
from tfhet.cluster import HOMOGENEOUS_GROUP
from tfhet.errors import UsageError
from tfhet.record import RunSummary
from tfhet.report import PriceOf, bill, duration, usd
from tfhet.units import HOUR_S

COMPLETED = "Completed"
USUAL_LIMIT_S = 86400.0


@dataclass(frozen=True)
class JobState:
    """The state of a training job. Times are seconds since 1970; None: not yet."""

    name: str
    status: str
    """`InProgress`, `Stopping`, `Completed`, `Failed` or `Stopped`."""
    secondary: str = ""
    """Detailed status: `Downloading`, `Training`, `Uploading`, `MaxRuntimeExceeded`, ..."""
    message: str = ""
    failure_reason: str | None = None
    groups: Sequence[InstanceGroup] = ()
    """A homogeneous job has one, called HOMOGENEOUS_GROUP."""
    started_s: float | None = None
    """Time from which the job is paid for."""
    ended_s: float | None = None
    billed_s: float | None = None
    """Seconds that each instance is charged for; known at the end."""
    trained_s: float | None = None
    """Seconds of training; more than `billed_s` on spot instances, in the ratio of the prices. Known at the end."""
    limit_s: float = USUAL_LIMIT_S
    """Maximum seconds that the job may take, including the wait for spot instances."""
    is_spot: bool = False
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    final_metrics: Mapping[str, float] = field(default_factory=dict)
    """Last values that the metric definitions found, by name."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> JobState:
        resources, limits = answer.get("ResourceConfig", {}), answer.get("StoppingCondition", {})
        trained_s = answer.get("TrainingTimeInSeconds")
        billed_s = answer.get("BillableTimeInSeconds", trained_s)
        only = {"InstanceGroupName": HOMOGENEOUS_GROUP, **resources}
        groups = resources.get("InstanceGroups") or ([only] if "InstanceType" in resources else [])
        transitions = answer.get("SecondaryStatusTransitions") or [{}]
        return cls(
            name=answer["TrainingJobName"],
            status=answer["TrainingJobStatus"],
            secondary=answer.get("SecondaryStatus", ""),
            message=transitions[-1].get("StatusMessage", ""),
            failure_reason=answer.get("FailureReason"),
            groups=tuple(
                InstanceGroup(each["InstanceGroupName"], each["InstanceType"], each["InstanceCount"]) for each in groups
            ),
            started_s=_moment(answer.get("TrainingStartTime")),
            ended_s=_moment(answer.get("TrainingEndTime")),
            billed_s=billed_s,
            trained_s=trained_s,
            limit_s=float(limits.get("MaxWaitTimeInSeconds") or limits.get("MaxRuntimeInSeconds") or USUAL_LIMIT_S),
            is_spot=bool(answer.get("EnableManagedSpotTraining")),
            hyperparameters=dict(answer.get("HyperParameters", {})),
            final_metrics={one["MetricName"]: one["Value"] for one in answer.get("FinalMetricDataList", ())},
        )

    @classmethod
    def ask(cls, job_name: str, sagemaker: Any, aws: Patient) -> JobState:
        """Requests the state. Raises UsageError if the job does not exist, and as `Patient`."""
        try:
            return cls.of(aws(sagemaker.describe_training_job, TrainingJobName=job_name))
        except AwsRefused as error:
            if error.code not in ("ResourceNotFound", "ValidationException"):
                raise
            where, what = sagemaker.meta.region_name, "check its name, --region and AWS_PROFILE"
            raise UsageError(f"no training job {job_name!r} in {where}: {what} ({error})") from None

    @property
    def is_over(self) -> bool:
        return self.status not in ("InProgress", "Stopping")

    @property
    def is_heterogeneous(self) -> bool:
        return len(self.groups) > 1

    @property
    def hosts(self) -> int:
        return sum(group.count for group in self.groups)

    def billable_s(self, now_s: float) -> float:
        if self.is_over and self.billed_s is not None:
            return float(self.billed_s)
        if self.started_s is None:
            return 0.0
        return max(0.0, (self.ended_s or now_s) - self.started_s)

    def hyperparameter(self, name: str) -> str | None:
        """Returns a value without the quotes of SageMaker's SDK; None if it is not set."""
        value = self.hyperparameters.get(name)
        return None if value is None else value.strip('"')

    def __str__(self) -> str:
        """`InProgress, Training: Training image download completed.`"""
        detail = f", {self.secondary}" if self.secondary not in ("", self.status) else ""
        return f"{self.status}{detail}{f': {self.message}' if self.message else ''}"


@dataclass(frozen=True)
class JobCost:
    """The cost of a training job: charged seconds of each instance, and money if prices are known."""

    billable_s: float
    usd_per_hour: float | None
    is_at_most: bool
    """Whether it may be less: SageMaker reports the discount of spot instances after the end."""
    why: str
    """Why the price is unknown, or its source."""

    @property
    def usd(self) -> float | None:
        """USD without storage and transfer; None if a price is unknown."""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.billable_s / HOUR_S

    def in_words(self, *, is_over: bool) -> str:
        """Returns `12 min 03 s, $3.21 so far`; "" before the job is charged."""
        so_far = " so far" if self.usd and not is_over else ""
        return f"{duration(self.billable_s)}, {self}{so_far}" if self.billable_s else ""

    def __str__(self) -> str:
        if self.usd is None:
            return self.why
        return f"{'at most ' if self.is_at_most and self.billable_s else ''}{usd(self.usd)}"


def cost_of(state: JobState, cluster: Mapping[str, Mapping[str, Any]], price_of: PriceOf, now_s: float) -> JobCost:
    """Returns the cost of a job until `now_s`. cluster: as `RunSummary.cluster`."""
    paid = bill(RunSummary(cluster=cluster), price_of)
    return JobCost(state.billable_s(now_s), paid.usd_per_hour, state.is_spot and not state.is_over, paid.why)


def training_prices(region: str) -> PriceOf:
    """Returns prices of training jobs, not EC2's. The result raises UsageError for an unknown type."""
    known = catalogue.default()
    return lambda name: known.price(name, region, catalogue.TRAINING)


def usd_per_million(state: JobState, cost: JobCost, examples_per_s: float | None) -> float | None:
    """Returns the cost of a million examples during training."""
    if cost.usd_per_hour is None or not examples_per_s:
        return None
    share = state.billed_s / state.trained_s if state.is_spot and state.billed_s and state.trained_s else 1.0
    return 1e6 / examples_per_s * share * cost.usd_per_hour / HOUR_S


def _moment(value: object) -> float | None:
    return value.timestamp() if isinstance(value, datetime) else None
