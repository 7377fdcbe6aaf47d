"""A job: what JOB.yaml says, checked and complete. A field that stands there as it is has its reader beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tfhet import strategies
from tfhet.catalogue import InstanceGroup
from tfhet.cluster import DATA_GROUP, DNN_GROUP
from tfhet.errors import UsageError
from tfhet.submit import values
from tfhet.submit.values import Value
from tfhet.yaml_file import REGION_NAME, listed, made, one_of

DATA, DNN, SPARE = "data", "dnn", "spare"
ROLES = (DATA, DNN, *(role.name for role in strategies.roles()), SPARE)
"""Roles of groups. A spare group has no hosts (yet)."""
MPI, ALONE = "mpi", "alone"
STARTS = (MPI, ALONE)
"""Starters of the ranks: SageMaker's toolkit by MPI, or the launcher of each host."""
FILE, PIPE = "File", "Pipe"
MODES = (FILE, "FastFile", PIPE)
FSX, EFS = "fsx", "efs"
FILE_SYSTEMS = {FSX: "FSxLustre", EFS: "EFS"}
"""File systems that a channel can be, with SageMaker's names of them."""
CHECKPOINTS = "/opt/ml/checkpoints"
"""Directory in which the built-in trainer writes its checkpoints, and looks for them."""


def hosts_with_ranks(parameters: Mapping[str, Any], count: int) -> int:
    """Number of hosts with ranks among the `count` hosts of the group that trains: all, or the first alone where the
    strategy runs one script, which uses the others."""
    name = parameters.get("strategy", strategies.AUTO)
    is_led = name in strategies.names() and strategies.get(name).role_of_others is not None
    return min(1, count) if is_led else count


@dataclass(frozen=True)
class JobGroup(InstanceGroup):
    """A group of instances with its role in the job."""

    role: str
    """One of ROLES."""
    ranks: int = 0
    """Training processes on each host; 0 where the group does not train."""


@dataclass(frozen=True)
class FileSystem:
    """A directory of a file system that hosts mount."""

    kind: str
    """One of FILE_SYSTEMS."""
    id: Annotated[str, values.FILE_SYSTEM]
    directory: Annotated[str, values.ABSOLUTE]
    """Absolute path; of FSx for Lustre, it begins with the mount name."""
    access: Annotated[str, one_of(("ro", "rw"))] = "ro"


@dataclass(frozen=True)
class Channel:
    """A set of files that hosts see as a directory."""

    name: str
    uri: Annotated[str, values.S3]
    """S3 prefix; of a file system, words for people."""
    mode: Annotated[str, one_of(MODES)] = FILE
    groups: Annotated[tuple[str, ...], listed(values.GROUP, "groups")] = ()
    """Names of the groups that see it; empty: all."""
    local: Annotated[str | None, values.DIRECTORY] = None
    """Directory that is used instead in a simulation."""
    file_system: FileSystem | None = None
    """None: the files lie in S3."""


@dataclass(frozen=True)
class Code:
    """The code that is packed, and the script in it that runs."""

    directory: Path
    script: str
    """Path of the launcher, relative to the directory."""
    uri: str
    """S3 prefix under which the packed directory is stored."""


@dataclass(frozen=True)
class CheckpointPlace:
    """A directory of each host that SageMaker synchronises with S3, and fills again before a retry."""

    uri: Annotated[str | None, values.S3] = None
    """None: below the job's own output."""
    directory: Annotated[str, values.ABSOLUTE] = CHECKPOINTS


@dataclass(frozen=True)
class Spot:
    """Settings of hosts that may be taken away."""

    max_wait_s: Annotated[int, values.SECONDS]
    """Maximum seconds for the wait for hosts and the training together."""
    attempts: Annotated[int, values.ATTEMPTS] = 0
    """Maximum number of restarts after an error of SageMaker's own; interruptions do not count."""


@dataclass(frozen=True)
class JobLimits:
    """Limits of a job's time, and the disk of its hosts."""

    max_run_s: Annotated[int, values.SECONDS]
    """Maximum training time in seconds, which bounds the bill."""
    volume_gib: Annotated[int, values.VOLUME] = 30
    keep_alive_s: Annotated[int, values.KEEP_ALIVE] = 0
    """Seconds for which hosts are kept, and paid for, after the job, for the next one."""


@dataclass(frozen=True)
class Vpc:
    """The private network of the hosts."""

    subnets: Annotated[tuple[str, ...], values.SUBNETS]
    security_groups: Annotated[tuple[str, ...], values.SECURITY_GROUPS]


@dataclass(frozen=True)
class Keys:
    """KMS keys, by id or ARN; None: the account's default key in S3, and none for the disks."""

    output: Annotated[str | None, values.KEY] = None
    """Encrypts model.tar.gz and output.tar.gz; may be an alias."""
    volume: Annotated[str | None, values.KEY] = None
    """Encrypts the disks of the hosts."""


@dataclass(frozen=True)
class Profiler:
    """SageMaker's own monitoring of the hosts."""

    uri: Annotated[str | None, values.S3] = None
    """S3 prefix for what it measures; None: below the job's output."""
    interval_ms: Annotated[int, values.INTERVAL] = 500
    disabled: Annotated[bool, values.TRUTH] = False


@dataclass(frozen=True)
class Job:
    name: Annotated[str, values.JOB_NAME]
    """Prefix of the names of its training jobs; the time follows."""
    image: Annotated[str, values.IMAGE]
    role: Annotated[str, values.ROLE]
    """ARN of the role that hosts act in."""
    output: Annotated[str, values.S3]
    """S3 prefix for model.tar.gz and output.tar.gz."""
    code: Code
    groups: tuple[JobGroup, ...]
    limits: Annotated[JobLimits, made(JobLimits)]
    grouped: bool = True
    """Whether the request names groups; else there is one, called HOMOGENEOUS_GROUP."""
    start: Annotated[str, one_of(STARTS)] = MPI
    hyperparameters: Annotated[Mapping[str, Value], values.PARAMETERS] = field(default_factory=dict)
    pipeline: Annotated[Mapping[str, Value], values.pipeline] = field(default_factory=dict)
    """Hyperparameters that `tfhet plan --write` may change."""
    environment: Annotated[Mapping[str, str], values.ENVIRONMENT] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()
    checkpoints: Annotated[CheckpointPlace | None, made(CheckpointPlace)] = None
    spot: Annotated[Spot | None, made(Spot)] = None
    vpc: Annotated[Vpc | None, made(Vpc)] = None
    keys: Annotated[Keys, made(Keys)] = Keys()
    profiler: Annotated[Profiler | None, made(Profiler)] = None
    """None: as SageMaker does by default."""
    encrypt_traffic: Annotated[bool, values.TRUTH] = False
    tags: Annotated[Mapping[str, str], values.TAGS] = field(default_factory=dict)
    region: Annotated[str | None, REGION_NAME] = None
    """None: the region of AWS's own configuration."""
    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Line number of each field by its name, like `groups: dnn_group: count`; "" is the whole file."""

    @property
    def dnn(self) -> JobGroup:
        """The group that trains."""
        return next(group for group in self.groups if group.role == DNN)

    @property
    def data(self) -> JobGroup | None:
        """The group that prepares data."""
        return next((group for group in self.groups if group.role == DATA), None)

    @property
    def ranked_hosts(self) -> int:
        """Number of hosts that have ranks."""
        return hosts_with_ranks(self.hyperparameters, self.dnn.count)

    @property
    def ranks(self) -> int:
        """Number of training processes on all hosts."""
        return self.dnn.ranks * self.ranked_hosts

    @property
    def strategy(self) -> strategies.Strategy:
        """The strategy by which the ranks train together. Raises UsageError for one that is not known."""
        return strategies.chosen(str(self.hyperparameters.get("strategy", strategies.AUTO)), self.ranks)

    @property
    def parameters(self) -> dict[str, Value]:
        """All hyperparameters of the launcher and the training script, by name."""
        given: dict[str, Value] = {**self.hyperparameters, **self.pipeline}
        if self.grouped and self.dnn.name != DNN_GROUP:
            given["dnn_group"] = self.dnn.name
        if self.data and self.data.name != DATA_GROUP:
            given["data_group"] = self.data.name
        if self.start == ALONE:
            given["processes_per_host"] = self.dnn.ranks
        return dict(sorted(given.items()))

    @property
    def arguments(self) -> list[str]:
        """`parameters` as command line words, in the order and form of SageMaker's toolkit."""
        named = ((f"--{name}" if len(name) > 1 else f"-{name}", value) for name, value in self.parameters.items())
        return [word for name, value in named for word in (name, str(value))]

    def mistake(self, where: str, why: str) -> UsageError:
        """Returns an error that names the file, the line of a field like `code: script`, the field, and `why`. The
        line is that of the nearest part above the field where the file does not have the field."""
        part = where
        while part and part not in self.lines:
            part = part.rpartition(": ")[0]
        return UsageError(f"{self.file}:{self.lines.get(part, 1)}: {where} {why}")
