"""The request CreateTrainingJob that starts a job: a pure function of the job."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from tfhet.control import SECRET_VARIABLE
from tfhet.submit.hyperparameters import hyperparameters
from tfhet.submit.job import Channel, CheckpointPlace, Job
from tfhet.submit.metrics import DEFINITIONS

REDACTED = "(a fresh one, made when the job is sent)"
"""Stands in the place of the secret wherever a request is shown."""


def create_request(job: Job, job_name: str, archive_uri: str, secret: str) -> dict[str, Any]:
    """The arguments of boto3's `create_training_job`.

    job_name: of the training job, at most 63 characters. archive_uri: of the packed code. secret: of the job's link.
    """
    request: dict[str, Any] = {
        "TrainingJobName": job_name,
        "RoleArn": job.role,
        "AlgorithmSpecification": {
            "TrainingImage": job.image,
            "TrainingInputMode": "File",
            "MetricDefinitions": [definition.to_request() for definition in DEFINITIONS],
        },
        "HyperParameters": hyperparameters(job, job_name, archive_uri),
        "Environment": {**job.environment, SECRET_VARIABLE: secret},
        "OutputDataConfig": {"S3OutputPath": job.output},
        "ResourceConfig": _resources(job),
        "StoppingCondition": {"MaxRuntimeInSeconds": job.limits.max_run_s},
        "EnableInterContainerTrafficEncryption": job.encrypt_traffic,
        "EnableManagedSpotTraining": job.spot is not None,
    }
    if job.channels:  # an empty list is refused
        request["InputDataConfig"] = [_channel(channel) for channel in job.channels]
    if checkpoints := checkpoints_of(job, job_name):
        request["CheckpointConfig"] = {"S3Uri": checkpoints.uri, "LocalPath": checkpoints.directory}
    if job.spot:
        request["StoppingCondition"]["MaxWaitTimeInSeconds"] = job.spot.max_wait_s
        if job.spot.attempts:
            request["RetryStrategy"] = {"MaximumRetryAttempts": job.spot.attempts}
    if job.vpc:
        request["VpcConfig"] = {"Subnets": [*job.vpc.subnets], "SecurityGroupIds": [*job.vpc.security_groups]}
    if job.tags:
        request["Tags"] = [{"Key": key, "Value": value} for key, value in job.tags.items()]
    return request


def checkpoints_of(job: Job, job_name: str) -> CheckpointPlace | None:
    """The place of the checkpoints; None without checkpoints.

    A job on spot hosts has them in any case. Where the file names no place they lie below the training job's own
    output: its retries go on from them, and another job does not.
    """
    if job.checkpoints is None and job.spot is None:
        return None
    said = job.checkpoints or CheckpointPlace()
    return CheckpointPlace(said.uri or f"{job.output.rstrip('/')}/{job_name}/checkpoints", said.directory)


def redacted(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request without the secret."""
    shown = deepcopy(dict(request))
    shown["Environment"][SECRET_VARIABLE] = REDACTED
    return shown


def _resources(job: Job) -> dict[str, Any]:
    resources: dict[str, Any] = {"VolumeSizeInGB": job.limits.volume_gib}
    if job.limits.keep_alive_s:
        resources["KeepAlivePeriodInSeconds"] = job.limits.keep_alive_s
    if not job.grouped:
        return {"InstanceType": job.dnn.instance_type, "InstanceCount": job.dnn.count, **resources}
    groups = [
        {"InstanceGroupName": group.name, "InstanceType": group.instance_type, "InstanceCount": group.count}
        for group in job.groups
    ]
    return {"InstanceGroups": groups, **resources}


def _channel(channel: Channel) -> dict[str, Any]:
    """All hosts get all files: a worker opens them at the paths that rank 0 sees."""
    source: dict[str, Any] = {
        "S3DataType": "S3Prefix",
        "S3Uri": channel.uri,
        "S3DataDistributionType": "FullyReplicated",
    }
    if channel.groups:
        source["InstanceGroupNames"] = [*channel.groups]
    return {"ChannelName": channel.name, "InputMode": channel.mode, "DataSource": {"S3DataSource": source}}
