"""The same job as a script for the SageMaker Python SDK, for people who want that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfhet.control import SECRET_VARIABLE
from tfhet.errors import unknown
from tfhet.job.hyperparameters import MPI_OPTIONS
from tfhet.job.job import ALONE, MPI, Channel, Checkpoints, Job
from tfhet.job.metrics import DEFINITIONS
from tfhet.job.python_code import Code, call, written

VERSIONS = ("v2", "v3")
_BEGIN = '''"""The training job {job}, by version {version} of the SageMaker Python SDK (pip install "{package}").

Written by: tfhet submit {file} --sdk v{version}
"""

import secrets
from datetime import datetime, timezone

{imports}

name = "{job}-" + datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
secret = "s" + secrets.token_hex(32)  # of the link between the job's launchers: a fresh one for each job

'''


def script(job: Job, version: str) -> str:
    """The script for a version of the SDK. Raises UsageError for an unknown one.

    Version 3 starts ranks by MPI on all groups, or on none: with it the launchers of the dnn group start them, always.
    It drops a count of 0 from the request, which AWS wants of every group: groups without hosts are left out.
    """
    if version not in VERSIONS:
        unknown("version of the SDK", version, VERSIONS)
    return _v2(job) if version == "v2" else _v3(job)


def _v2(job: Job) -> str:
    by_mpi = job.start == MPI
    kind = "TensorFlow" if by_mpi else "Estimator"
    imports = [
        "import boto3",
        "import sagemaker",
        *([] if by_mpi else ["from sagemaker.estimator import Estimator"]),
        *(["from sagemaker.inputs import TrainingInput"] if job.channels else []),
        *(["from sagemaker.instance_group import InstanceGroup"] if job.grouped else []),
        *(["from sagemaker.tensorflow import TensorFlow"] if by_mpi else []),
    ]
    arguments: dict[str, Any] = {
        "sagemaker_session": Code(f"sagemaker.Session(boto3.Session(region_name={job.region!r}))"),
        "image_uri": job.image,
        "role": job.role,
        "source_dir": str(job.code.directory),
        "entry_point": job.code.script,
        "code_location": job.code.uri,
        "output_path": job.output,
    }
    if job.grouped:
        groups = [call("InstanceGroup", group.name, group.instance_type, group.count) for group in job.groups]
        arguments["instance_groups"] = Code("groups")
    else:
        groups = []
        arguments |= {"instance_type": job.dnn.instance_type, "instance_count": job.dnn.count}
    if by_mpi:
        mpi = {"enabled": True, "processes_per_host": job.dnn.ranks, "custom_mpi_options": MPI_OPTIONS}
        arguments["model_dir"] = False
        arguments["distribution"] = {"mpi": mpi}
        if job.grouped:
            arguments["distribution"]["instance_groups"] = Code(f"[groups[{job.groups.index(job.dnn)}]]")
    arguments |= {
        "hyperparameters": job.parameters,
        "environment": {**job.environment, SECRET_VARIABLE: Code("secret")},
        "metric_definitions": [definition.to_request() for definition in DEFINITIONS],
        "volume_size": job.limits.volume_gib,
        "max_run": job.limits.max_run_s,
        "encrypt_inter_container_traffic": job.encrypt_traffic,
        "disable_profiler": True,
        "debugger_hook_config": False,
    }
    if job.limits.keep_alive_s:
        arguments["keep_alive_period_in_seconds"] = job.limits.keep_alive_s
    if job.spot:
        arguments |= {"use_spot_instances": True, "max_wait": job.spot.max_wait_s}
        if job.spot.attempts:
            arguments["max_retry_attempts"] = job.spot.attempts
    if job.spot or job.checkpoints:
        said = job.checkpoints or Checkpoints()
        arguments |= {"checkpoint_s3_uri": _checkpoint_uri(job), "checkpoint_local_path": said.directory}
    if job.vpc:
        arguments |= {"subnets": [*job.vpc.subnets], "security_group_ids": [*job.vpc.security_groups]}
    if job.tags:
        arguments["tags"] = [{"Key": key, "Value": value} for key, value in job.tags.items()]
    inputs = {
        channel.name: call(
            "TrainingInput",
            channel.uri,
            input_mode=channel.mode,
            **({"instance_groups": [*channel.groups]} if channel.groups else {}),
        )
        for channel in job.channels
    }
    begin = _begin(job, "2", "sagemaker<3", imports)
    lines = [f"groups = {written(groups)}"] if groups else []
    lines += [f"estimator = {call(kind, **arguments)}", f"estimator.fit({written(inputs or None)}, job_name=name)"]
    return begin + "\n".join(lines) + "\n"


def _v3(job: Job) -> str:
    imports = [
        "from boto3 import Session as BotoSession",
        "from sagemaker.core.helper.session_helper import Session",
        "from sagemaker.core.training import configs",
        "from sagemaker.train import ModelTrainer",
    ]
    source = {"source_dir": str(job.code.directory), "entry_script": job.code.script}
    if (job.code.directory / "requirements.txt").is_file():
        source["requirements"] = "requirements.txt"
    compute: dict[str, Any] = {"instance_type": job.dnn.instance_type, "instance_count": job.dnn.count}
    if job.grouped:
        groups = [
            call(
                "configs.InstanceGroup",
                instance_group_name=group.name,
                instance_type=group.instance_type,
                instance_count=group.count,
            )
            for group in job.groups
            if group.count
        ]
        compute = {"instance_groups": groups}
    compute["volume_size_in_gb"] = job.limits.volume_gib
    if job.limits.keep_alive_s:
        compute["keep_alive_period_in_seconds"] = job.limits.keep_alive_s
    stopping = {"max_runtime_in_seconds": job.limits.max_run_s}
    if job.spot:
        compute["enable_managed_spot_training"] = True
        stopping["max_wait_time_in_seconds"] = job.spot.max_wait_s
    network: dict[str, Any] = {"enable_inter_container_traffic_encryption": job.encrypt_traffic}
    if job.vpc:
        network |= {"subnets": [*job.vpc.subnets], "security_group_ids": [*job.vpc.security_groups]}
    arguments: dict[str, Any] = {
        "sagemaker_session": Code(f"Session(BotoSession(region_name={job.region!r}))"),
        "training_image": job.image,
        "role": job.role,
        "base_job_name": job.name,
        "source_code": call("configs.SourceCode", **source),
        "compute": call("configs.Compute", **compute),
        "hyperparameters": {**job.parameters, "processes_per_host": job.dnn.ranks},
        "environment": {**job.environment, SECRET_VARIABLE: Code("secret")},
        "input_data_config": [_v3_channel(channel, job) for channel in job.channels],
        "output_data_config": call("configs.OutputDataConfig", s3_output_path=job.output),
        "stopping_condition": call("configs.StoppingCondition", **stopping),
        "networking": call("configs.Networking", **network),
    }
    if job.spot or job.checkpoints:
        said = job.checkpoints or Checkpoints()
        where = {"s3_uri": _checkpoint_uri(job), "local_path": said.directory}
        arguments["checkpoint_config"] = call("configs.CheckpointConfig", **where)
    if job.tags:
        arguments["tags"] = [call("configs.Tag", key=key, value=value) for key, value in job.tags.items()]
    metrics = [call("configs.MetricDefinition", name=each.name, regex=each.regex) for each in DEFINITIONS]
    lines = [f"trainer = {call('ModelTrainer', **arguments)}", f"trainer.with_metric_definitions({written(metrics)})"]
    if job.spot and job.spot.attempts:
        retry = call("configs.RetryStrategy", maximum_retry_attempts=job.spot.attempts)
        lines.append(f"trainer.with_retry_strategy({retry})")
    if job.start != ALONE:
        lines.insert(0, "# Version 3 starts MPI on all groups or none: here each launcher starts its host's ranks.")
    return _begin(job, "3", "sagemaker>=3", imports) + "\n".join([*lines, "trainer.train()", ""])


def _v3_channel(channel: Channel, job: Job) -> Code:
    source: dict[str, Any] = {
        "s3_data_type": "S3Prefix",
        "s3_uri": channel.uri,
        "s3_data_distribution_type": "FullyReplicated",
    }
    if channel.groups:
        there = {group.name for group in job.groups if group.count}
        source["instance_group_names"] = [name for name in channel.groups if name in there]
    whole = call("configs.DataSource", s3_data_source=call("configs.S3DataSource", **source))
    return call("configs.Channel", channel_name=channel.name, input_mode=channel.mode, data_source=whole)


def _checkpoint_uri(job: Job) -> str | Code:
    """The place that the file names, else one of the training job's own."""
    if job.checkpoints and job.checkpoints.uri:
        return job.checkpoints.uri
    return Code(f'"{job.output.rstrip("/")}/" + name + "/checkpoints"')


def _begin(job: Job, version: str, package: str, imports: Sequence[str]) -> str:
    return _BEGIN.format(
        job=job.name, version=version, package=package, file=job.file or "JOB.yaml", imports="\n".join(imports)
    )
