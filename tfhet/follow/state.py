"""A training job as SageMaker describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tfhet.catalogue import InstanceGroup
from tfhet.cluster import HOMOGENEOUS_GROUP
from tfhet.errors import UsageError
from tfhet.submit import AwsRefused, Patient

COMPLETED, FAILED, STOPPED = "Completed", "Failed", "Stopped"
_GOES_ON = ("InProgress", "Stopping")
ONLY_GROUP = HOMOGENEOUS_GROUP
"""SageMaker's name for the group of a job without groups, in resourceconfig.json."""
USUAL_LIMIT_S = 86400.0
"""MaxRuntimeInSeconds of a job that names none."""


@dataclass(frozen=True)
class JobState:
    """A training job at one moment. Times are seconds since 1970; None: not yet."""

    name: str
    status: str
    """`InProgress`, `Stopping`, `Completed`, `Failed` or `Stopped`."""
    secondary: str = ""
    """In more detail: `Downloading`, `Training`, `Uploading`, `MaxRuntimeExceeded`, ..."""
    message: str = ""
    """What SageMaker says about that."""
    failure_reason: str | None = None
    groups: Sequence[InstanceGroup] = ()
    """One, called ONLY_GROUP, of a homogeneous job."""
    started_s: float | None = None
    """Time from which the job is paid for."""
    ended_s: float | None = None
    billed_s: float | None = None
    """Seconds that each instance is charged for; known at the end."""
    trained_s: float | None = None
    """Seconds of training; more than `billed_s` on spot instances, in the ratio of the prices. Known at the end."""
    limit_s: float = USUAL_LIMIT_S
    """Maximum seconds that it may take, including the wait for spot instances."""
    is_spot: bool = False
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    output_path: str = ""
    """S3 prefix of its results."""
    profiler: Mapping[str, Any] = field(default_factory=dict)
    """ProfilerConfig; empty where it has none."""
    final_metrics: Mapping[str, float] = field(default_factory=dict)
    """Last values of what its metric definitions found."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> JobState:
        """The state in an answer of DescribeTrainingJob."""
        resources, limits = answer.get("ResourceConfig", {}), answer.get("StoppingCondition", {})
        trained_s = answer.get("TrainingTimeInSeconds")
        billed_s = answer.get("BillableTimeInSeconds", trained_s)
        groups = [
            InstanceGroup(str(one["InstanceGroupName"]), str(one["InstanceType"]), int(one["InstanceCount"]))
            for one in resources.get("InstanceGroups", ())
        ]
        if not groups and resources.get("InstanceType"):
            groups = [InstanceGroup(ONLY_GROUP, str(resources["InstanceType"]), int(resources["InstanceCount"]))]
        transitions = answer.get("SecondaryStatusTransitions") or [{}]
        return cls(
            name=str(answer["TrainingJobName"]),
            status=str(answer["TrainingJobStatus"]),
            secondary=str(answer.get("SecondaryStatus", "")),
            message=str(transitions[-1].get("StatusMessage", "")),
            failure_reason=answer.get("FailureReason"),
            groups=tuple(groups),
            started_s=_moment(answer.get("TrainingStartTime")),
            ended_s=_moment(answer.get("TrainingEndTime")),
            billed_s=None if billed_s is None else float(billed_s),
            trained_s=None if trained_s is None else float(trained_s),
            limit_s=float(limits.get("MaxWaitTimeInSeconds") or limits.get("MaxRuntimeInSeconds") or USUAL_LIMIT_S),
            is_spot=bool(answer.get("EnableManagedSpotTraining")),
            hyperparameters=dict(answer.get("HyperParameters", {})),
            output_path=str(answer.get("OutputDataConfig", {}).get("S3OutputPath", "")),
            profiler=dict(answer.get("ProfilerConfig", {})),
            final_metrics={
                str(one["MetricName"]): float(one["Value"]) for one in answer.get("FinalMetricDataList", ())
            },
        )

    @classmethod
    def ask(cls, job_name: str, sagemaker: Any, aws: Patient) -> JobState:
        """Asks SageMaker for the state. Raises UsageError for a job that is not there; the rest as `Patient`."""
        try:
            return cls.of(aws(sagemaker.describe_training_job, TrainingJobName=job_name))
        except AwsRefused as error:
            if error.code not in ("ResourceNotFound", "ValidationException"):
                raise
            where = getattr(getattr(sagemaker, "meta", None), "region_name", None) or "this region"
            raise UsageError(
                f"no training job {job_name!r} in {where}, of this account: look at its name, --region and AWS_PROFILE "
                f"({error})"
            ) from None

    @property
    def is_over(self) -> bool:
        return self.status not in _GOES_ON

    @property
    def is_heterogeneous(self) -> bool:
        return len(self.groups) > 1

    @property
    def hosts(self) -> int:
        """Number of instances."""
        return sum(group.count for group in self.groups)

    def billable_s(self, now_s: float) -> float:
        """Seconds that each instance is charged for; of a job that goes on so far, at `now_s` since 1970."""
        if self.is_over and self.billed_s is not None:
            return self.billed_s
        if self.started_s is None:
            return 0.0
        return max(0.0, (self.ended_s or now_s) - self.started_s)

    def hyperparameter(self, name: str) -> str | None:
        """Its value without the quotes that SageMaker's SDK puts around it; None where it is not set."""
        value = self.hyperparameters.get(name)
        return None if value is None else value.strip('"')

    def __str__(self) -> str:
        """`InProgress, Training: Training image download completed.`"""
        detail = f", {self.secondary}" if self.secondary not in ("", self.status) else ""
        return f"{self.status}{detail}{f': {self.message}' if self.message else ''}"


def _moment(value: object) -> float | None:
    return value.timestamp() if isinstance(value, datetime) else None
