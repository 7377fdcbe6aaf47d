"""A job file as what the simulator runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfhet.simulate.channels import DIGITS
from tfhet.simulate.cluster_file import ClusterFile, GroupFile
from tfhet.simulate.host import hyperparameters
from tfhet.submit import ALONE, PIPE, Channel, Job, check_code


def cluster_of(job: Job) -> ClusterFile:
    """The groups of a job, and its channels as directories on this machine."""
    groups = {group.name: GroupFile(group.count, max(1, group.ranks), group.instance_type) for group in job.groups}
    return ClusterFile(job.name, groups, {channel.name: _directory(job, channel) for channel in job.channels})


def command_of(job: Job, more: Sequence[str] = ()) -> list[str]:
    """The command of every host. more: `--NAME VALUE` words that win over the hyperparameters of the file."""
    return [job.code.script, *job.arguments, *more]


def how(job: Job, more: Sequence[str] = ()) -> dict[str, Any]:
    """What else a simulation is to be told of a job: see `Submission`.

    Raises UsageError for code that would not start, and for a channel that is a pipe, which no simulated host has.
    """
    check_code(job)
    for channel in job.channels:
        if channel.mode == PIPE:
            job.refuse(f"channels: {channel.name}: mode", "must be File or FastFile in a simulation")
    told = hyperparameters(["", *more], "") if more else {}
    given = {name: value for name, value in told.items() if not name.startswith("sagemaker_")}
    return {
        **({"start": ALONE} if job.start == ALONE else {}),
        "code": job.code.directory,
        "environment": job.environment,
        "input_modes": {channel.name: channel.mode for channel in job.channels},
        "channel_groups": {channel.name: channel.groups for channel in job.channels if channel.groups},
        "parameters": {name: json.dumps(value) for name, value in job.parameters.items()} | given,
    }


def _directory(job: Job, channel: Channel) -> str:
    """Relative ones are relative to the job file; a channel without one is told by its URI, which is no directory."""
    if channel.local is None:
        return channel.uri
    if Path(channel.local).parts[:1] == (DIGITS,):
        return channel.local
    return str(Path(job.file).parent / channel.local)
