"""The request CreateTrainingJob or CreateHyperParameterTuningJob that starts a job: a pure function of the job."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tfhet.control import SECRET_VARIABLE
from tfhet.messages import UNITS, epoch_pattern, metric_pattern
from tfhet.submit.job import FILE_SYSTEMS, MPI, Channel, CheckpointPlace, Job

REDACTED = "(a fresh one, made when the job is sent)"
"""Stands in the place of the secret wherever a request is shown."""
OWN = "sagemaker_"
"""Prefix of the toolkit's own hyperparameters."""
MOST = 100
"""Maximum number of hyperparameters in a request."""
MOST_GIVEN = MOST - 12
"""Maximum number in a job file: `hyperparameters` adds at most the rest."""
MPI_OPTIONS = f"-x {SECRET_VARIABLE}"
"""mpirun passes the secret on to ranks on other hosts; only the variable's name stands on its command line."""
_NUMBER = "-?[0-9.]+(?:e-?[0-9]+)?"
"""Pattern of a number; CloudWatch does not take nan and inf."""


class MetricDefinition(NamedTuple):
    name: str
    """Name in CloudWatch, at most 255 characters."""
    regex: str
    """Its only group is the number. At most 500 characters."""
    unit: str
    says: str

    def to_request(self) -> dict[str, str]:
        """Returns an element of AlgorithmSpecification.MetricDefinitions in CreateTrainingJob."""
        return {"Name": self.name, "Regex": self.regex}


def _of_line(name: str, says: str) -> MetricDefinition:
    """A number of the metric line (`messages.MetricLine`), which rank 0 alone prints."""
    return MetricDefinition(name, metric_pattern(name, _NUMBER), UNITS[name], says)


def _of_epoch(word: str, says: str, name: str = "") -> MetricDefinition:
    """A number of the line at the end of an epoch, under its own name if none is given."""
    return MetricDefinition(name or word, epoch_pattern(word, _NUMBER), "None", says)


DEFINITIONS = (
    _of_line("step", "steps taken"),
    _of_line("epoch", "the epoch, from 0"),
    _of_line("step_ms", "mean length of a step since the last line"),
    _of_line("examples_per_s", "examples of all ranks"),
    _of_line("loss", "mean over the epoch so far"),
    _of_line("wait_pct", "share of the steps' time spent waiting for data"),
    _of_epoch("accuracy", "of the epoch's training"),
    _of_epoch("val_loss", "on the validation set"),
    _of_epoch("val_accuracy", "on the validation set"),
    _of_epoch("missing", "examples that no rank has seen in the epoch, by the audit", name="examples_missing"),
)
"""SageMaker takes at most 40."""


def create_request(job: Job, job_name: str, archive_uri: str, secret: str) -> dict[str, Any]:
    """Returns the arguments of boto3's `create_training_job`, or for a job with `tuning` of
    `create_hyper_parameter_tuning_job`.

    Args:
        job: The job.
        job_name: At most 63 characters, with `tuning` 32.
        archive_uri: S3 URI of the packed code.
        secret: Of the launchers' link. All training jobs of a tuning job have the same.
    """
    request = _training_job(job, job_name, archive_uri, secret)
    if job.tuning is None:
        return request
    del request["TrainingJobName"]
    tags = {"Tags": request.pop("Tags")} if job.tags else {}
    request["StaticHyperParameters"] = request.pop("HyperParameters")
    if job.tuning.objective.regex:
        own = {"Name": job.tuning.objective.metric_name, "Regex": job.tuning.objective.regex}
        request["AlgorithmSpecification"]["MetricDefinitions"].append(own)
    return {
        "HyperParameterTuningJobName": job_name,
        "HyperParameterTuningJobConfig": job.tuning.to_request(json.dumps),
        "TrainingJobDefinition": request,
        **tags,
    }


def _training_job(job: Job, job_name: str, archive_uri: str, secret: str) -> dict[str, Any]:
    """Returns the arguments of boto3's `create_training_job`."""
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
        request["InputDataConfig"] = [_channel(channel) for channel in job.channels.values()]
    if checkpoints := _checkpoints(job, job_name):
        request["CheckpointConfig"] = checkpoints
    if job.spot:
        request["StoppingCondition"]["MaxWaitTimeInSeconds"] = job.spot.max_wait_s
        if job.spot.attempts:
            request["RetryStrategy"] = {"MaximumRetryAttempts": job.spot.attempts}
    if job.vpc:
        request["VpcConfig"] = {"Subnets": [*job.vpc.subnets], "SecurityGroupIds": [*job.vpc.security_groups]}
    if job.keys.output:
        request["OutputDataConfig"]["KmsKeyId"] = job.keys.output
    if profiler := job.profiler:
        place = {"S3OutputPath": profiler.uri or job.output, "ProfilingIntervalInMilliseconds": profiler.interval_ms}
        request["ProfilerConfig"] = {"DisableProfiler": True} if profiler.disabled else place
    if job.tags:
        request["Tags"] = [{"Key": key, "Value": value} for key, value in job.tags.items()]
    return request


def _checkpoints(job: Job, job_name: str) -> dict[str, str]:
    """Returns CheckpointConfig; {} without checkpoints. A job on spot hosts has them in any case. Where the file names
    no place they are below the training job's own output: its retries continue from them, and another job does not. The
    training jobs of a tuning job would share one place, and continue from each other's checkpoints: they have none."""
    if job.tuning or (job.checkpoints is None and job.spot is None):
        return {}
    given = job.checkpoints or CheckpointPlace()
    uri = given.uri or f"{job.output.rstrip('/')}/{job_name}/checkpoints"
    return {"S3Uri": uri, "LocalPath": given.directory}


def _resources(job: Job) -> dict[str, Any]:
    resources: dict[str, Any] = {"VolumeSizeInGB": job.limits.volume_gib}
    if job.keys.volume:
        resources["VolumeKmsKeyId"] = job.keys.volume
    if job.limits.keep_alive_s:
        resources["KeepAlivePeriodInSeconds"] = job.limits.keep_alive_s
    if not job.grouped:
        return {"InstanceType": job.dnn.instance_type, "InstanceCount": job.dnn.count, **resources}
    groups = [
        {"InstanceGroupName": group.name, "InstanceType": group.instance_type, "InstanceCount": group.count}
        for group in job.groups.values()
    ]
    return {"InstanceGroups": groups, **resources}


def _channel(channel: Channel) -> dict[str, Any]:
    """Returns a channel of which all hosts get all files: a worker opens them at the paths that rank 0 sees."""
    made: dict[str, Any] = {"ChannelName": channel.name, "InputMode": channel.mode}
    if system := channel.file_system:
        place = {"FileSystemId": system.id, "FileSystemType": FILE_SYSTEMS[system.kind]}
        place |= {"FileSystemAccessMode": system.access, "DirectoryPath": system.directory}
        return {**made, "DataSource": {"FileSystemDataSource": place}}
    source: dict[str, Any] = {"S3DataType": "S3Prefix", "S3Uri": channel.uri}
    source["S3DataDistributionType"] = "FullyReplicated"
    if channel.groups:
        source["InstanceGroupNames"] = [*channel.groups]
    return {**made, "DataSource": {"S3DataSource": source}}


def hyperparameters(job: Job, job_name: str, archive_uri: str) -> dict[str, str]:
    """Returns all hyperparameters of a request, each a JSON value as text. archive_uri: S3 URI of sourcedir.tar.gz.
    With MPI the toolkit starts the ranks, on the dnn group only; else every host starts its launcher once."""
    found: dict[str, Any] = {
        **job.parameters,
        "sagemaker_submit_directory": archive_uri,
        "sagemaker_program": job.code.script,
        "sagemaker_container_log_level": 20,
        "sagemaker_job_name": job_name,
    }
    if job.region:
        found["sagemaker_region"] = job.region
    if job.start == MPI:
        found["sagemaker_mpi_enabled"] = True
        found["sagemaker_mpi_num_of_processes_per_host"] = job.dnn.ranks
        found["sagemaker_mpi_custom_mpi_options"] = MPI_OPTIONS
        if job.grouped:
            found["sagemaker_distribution_instance_groups"] = [job.dnn.name]
    return {name: json.dumps(value) for name, value in sorted(found.items())}
