"""A job: what JOB.yaml says, checked and complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tfhet.catalogue import InstanceGroup
from tfhet.cluster.role import DATA_GROUP, DNN_GROUP
from tfhet.errors import UsageError

Value = str | int | float | bool
"""Of a hyperparameter."""

HOMOGENEOUS = "homogeneousCluster"
"""What SageMaker calls the only group of a job that was given no groups."""
DATA, DNN, SPARE = "data", "dnn", "spare"
ROLES = (DATA, DNN, SPARE)
"""What a group is for. A spare one has no hosts (yet)."""
MPI, ALONE = "mpi", "alone"
STARTS = (MPI, ALONE)
"""Who starts the ranks: SageMaker's toolkit by MPI, or the launcher of each host."""
FILE, FAST_FILE, PIPE = "File", "FastFile", "Pipe"
MODES = (FILE, FAST_FILE, PIPE)
CHECKPOINTS = "/opt/ml/checkpoints"
"""Where the built-in trainer writes its checkpoints, and looks for them."""


@dataclass(frozen=True)
class JobGroup(InstanceGroup):
    """A group of instances with what it does in the job."""

    role: str
    """One of ROLES."""
    ranks: int = 0
    """Training processes on each host; 0 where the group does not train."""


@dataclass(frozen=True)
class Channel:
    """A set of files that hosts find as a directory."""

    name: str
    uri: str
    mode: str = FILE
    """One of MODES."""
    groups: tuple[str, ...] = ()
    """Names of those that see it; empty: all."""
    local: str | None = None
    """A directory that takes its place in a simulation."""


@dataclass(frozen=True)
class Code:
    """What is packed, and what of it is run."""

    directory: Path
    script: str
    """The launcher, relative to the directory."""
    uri: str
    """S3 prefix under which the packed directory is stored."""


@dataclass(frozen=True)
class CheckpointPlace:
    """A directory of each host that SageMaker keeps in step with S3, and fills again before a retry."""

    uri: str | None = None
    """None: below the job's own output."""
    directory: str = CHECKPOINTS


@dataclass(frozen=True)
class Spot:
    """Hosts that may be taken away."""

    max_wait_s: int
    """For the hosts and the training together."""
    attempts: int = 0
    """After an error inside of SageMaker the job is started again so often; interruptions do not count."""


@dataclass(frozen=True)
class JobLimits:
    """What a job may take."""

    max_run_s: int
    """The last bound on the bill."""
    volume_gib: int = 30
    """Of disk, on each host."""
    keep_alive_s: int = 0
    """Hosts stay, and are paid for, so long after the job, for the next one."""


@dataclass(frozen=True)
class Vpc:
    """The private network that hosts stand in."""

    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """A training job."""

    name: str
    """The training jobs made of it are called this and the time."""
    image: str
    role: str
    """ARN of the role that hosts act in."""
    output: str
    """S3 prefix for model.tar.gz and output.tar.gz."""
    code: Code
    groups: tuple[JobGroup, ...]
    limits: JobLimits
    grouped: bool = True
    """Whether SageMaker is told of groups; else there is one, called HOMOGENEOUS."""
    start: str = MPI
    """One of STARTS."""
    hyperparameters: Mapping[str, Value] = field(default_factory=dict)
    pipeline: Mapping[str, Value] = field(default_factory=dict)
    """Hyperparameters that `tfhet plan --write` may change."""
    environment: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()
    checkpoints: CheckpointPlace | None = None
    spot: Spot | None = None
    vpc: Vpc | None = None
    encrypt_traffic: bool = False
    """Of what hosts send each other."""
    tags: Mapping[str, str] = field(default_factory=dict)
    region: str | None = None
    """None: what AWS's own configuration says."""
    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Where the file says what, like `groups: dnn_group: count`; "" is the whole."""

    @property
    def dnn(self) -> JobGroup:
        """The group that trains."""
        return next(group for group in self.groups if group.role == DNN)

    @property
    def data(self) -> JobGroup | None:
        """The group that prepares data."""
        return next((group for group in self.groups if group.role == DATA), None)

    @property
    def ranks(self) -> int:
        """Of all hosts."""
        return self.dnn.ranks * self.dnn.count

    @property
    def parameters(self) -> dict[str, Value]:
        """All hyperparameters that the launcher and the training script are given, by name."""
        told: dict[str, Value] = {**self.hyperparameters, **self.pipeline}
        if self.grouped and self.dnn.name != DNN_GROUP:
            told["dnn_group"] = self.dnn.name
        if self.data and self.data.name != DATA_GROUP:
            told["data_group"] = self.data.name
        if self.start == ALONE:
            told["processes_per_host"] = self.dnn.ranks
        return dict(sorted(told.items()))

    @property
    def arguments(self) -> list[str]:
        """The same as command line words, in the order and form of SageMaker's toolkit."""
        named = ((f"--{name}" if len(name) > 1 else f"-{name}", value) for name, value in self.parameters.items())
        return [word for name, value in named for word in (name, str(value))]

    def refuse(self, where: str, why: str) -> NoReturn:
        """Raises a UsageError that names the file, the line of a field like `code: script` (else that of the nearest
        part above it that there is), the field, and `why`."""
        raise UsageError(f"{self.file}:{self.line(where)}: {where or 'the file'} {why}")

    def line(self, where: str) -> int:
        """From 1 on."""
        while where and where not in self.lines:
            where = where.rpartition(": ")[0]
        return self.lines.get(where, 1)
