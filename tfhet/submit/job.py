"""A job: the typed content of JOB.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from tfhet import strategies
from tfhet.catalogue import InstanceGroup
from tfhet.cluster import DATA_GROUP, DNN_GROUP
from tfhet.errors import UsageError
from tfhet.schema import Name, Region, one_of, whole
from tfhet.submit import values
from tfhet.submit.tuning import Tuning
from tfhet.submit.values import Value
from tfhet.yaml_file import Key, YamlFile

DATA, DNN, SPARE = "data", "dnn", "spare"
ROLES: tuple[str, ...] = (DATA, DNN, *(role.name for role in strategies.roles()), SPARE)
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


InstanceType = Annotated[str, "instance type"]
"""Full name of an instance type that the catalogue has."""


@dataclass(frozen=True)
class JobGroup(InstanceGroup):
    """A group of instances with its role in the job."""

    name: Key
    instance_type: InstanceType = field(metadata={"name": "type"})
    count: Annotated[int, whole(0, 1000)]
    role: Annotated[str, one_of(ROLES)] = ""
    """One of ROLES; in the file only needed for a group whose name does not imply it."""
    ranks: Annotated[int, whole(1, 256)] = 0
    """Training processes on each host; 0 if the group does not train, in the file: by default one per GPU."""


@dataclass(frozen=True)
class FileSystem:
    kind: Key
    id: values.FileSystemId
    directory: values.AbsolutePath
    """Of FSx for Lustre, it begins with the mount name."""
    access: Annotated[str, one_of(("ro", "rw"))] = "ro"


@dataclass(frozen=True)
class Channel:
    """A set of files that hosts see as a directory: exactly one of `uri`, `fsx` and `efs`."""

    name: Key
    uri: values.S3 = ""
    fsx: FileSystem | None = None
    efs: FileSystem | None = None
    mode: Annotated[str, one_of(MODES)] = FILE
    groups: Annotated[tuple[Name, ...], Meta(min_length=1, description="groups")] = ()
    """Names of the groups that see it; empty: all."""
    local: values.Directory | None = None
    """Directory that is used instead in a simulation."""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.uri, self.fsx, self.efs))) != 1:
            raise ValueError(f"given exactly one of uri, {', '.join(FILE_SYSTEMS)}")

    @property
    def file_system(self) -> FileSystem | None:
        """None: the files are in S3."""
        return self.fsx or self.efs


@dataclass(frozen=True)
class Code:
    """The code that is packed, and the script in it that runs."""

    directory: Path
    script: values.Script
    """Path of the launcher, relative to the directory."""
    uri: values.S3 = ""
    """S3 prefix under which the packed directory is stored; by default below the job's output."""


@dataclass(frozen=True)
class PipelineArguments:
    """Arguments of the launcher and the built-in trainer that say how batches are made; None: not set."""

    chain: values.Chain | None = None
    cut: Annotated[int, whole(-1, 1000)] | None = None
    batch_size: Annotated[int, whole(1, 1_000_000)] | None = None
    shuffle: Annotated[int, whole(0, 100_000_000)] | None = None
    data_host_workers: Annotated[int, whole(0, 256)] | None = None
    dnn_host_workers: Annotated[int, whole(0, 256)] | None = None
    compression: Annotated[str, one_of(("none", "snappy"))] | None = None
    reserve_cpus: Annotated[int, whole(-1, 1000)] | None = None


@dataclass(frozen=True)
class CheckpointPlace:
    """A directory of each host that SageMaker synchronises with S3, and fills again before a retry."""

    uri: values.S3 | None = None
    """None: below the job's own output."""
    directory: values.AbsolutePath = CHECKPOINTS


@dataclass(frozen=True)
class Spot:
    max_wait_s: values.Seconds
    """Maximum seconds for the wait for hosts and the training together."""
    attempts: Annotated[int, whole(1, 30)] = 0
    """Maximum number of restarts after an error of SageMaker's own; interruptions do not count."""


@dataclass(frozen=True)
class JobLimits:
    max_run_s: values.Seconds
    """Maximum training time in seconds, which bounds the bill."""
    volume_gib: Annotated[int, whole(1, 16_384, "a whole number of GiB")] = 30
    keep_alive_s: Annotated[int, whole(0, 21_600, "a whole number of seconds")] = 0
    """Seconds for which hosts are kept, and paid for, after the job, for the next one."""


@dataclass(frozen=True)
class Vpc:
    subnets: values.Subnets
    security_groups: values.SecurityGroups


@dataclass(frozen=True)
class Keys:
    """KMS keys, by id or ARN; None: the account's default key in S3, and none for the disks."""

    output: values.KmsKey | None = None
    """Encrypts model.tar.gz and output.tar.gz; may be an alias."""
    volume: values.KmsKey | None = None
    """Encrypts the disks of the hosts."""


@dataclass(frozen=True)
class Profiler:
    """SageMaker's own monitoring of the hosts."""

    uri: values.S3 | None = None
    """S3 prefix for the measurements; None: below the job's output."""
    interval_ms: values.Interval = 500
    disabled: values.Truth = False


@dataclass(frozen=True)
class Job:
    """The content of a job file. `job_file.parse` fills in the values that depend on others."""

    name: values.JobName
    """Prefix of the names of its training jobs; the time follows."""
    image: values.Image
    role: values.Role
    """ARN of the role that hosts act in."""
    output: values.S3
    """S3 prefix for model.tar.gz and output.tar.gz."""
    code: Code
    limits: JobLimits
    file: YamlFile = field(repr=False, compare=False)
    groups: Mapping[Name, JobGroup] = field(default_factory=dict)
    instances: JobGroup | None = None
    """The group of a job that names none; `groups` has it as HOMOGENEOUS_GROUP."""
    start: Annotated[str, one_of(STARTS)] = ""
    """By default MPI, or ALONE for a single rank."""
    hyperparameters: Mapping[values.Parameter, Value] = field(default_factory=dict)
    pipeline_arguments: PipelineArguments = field(default=PipelineArguments(), metadata={"name": "pipeline"})
    """Hyperparameters that `tfhet plan --write` may change."""
    environment: Mapping[values.Variable, values.VariableValue] = field(default_factory=dict)
    channels: Mapping[values.Channel, Channel] = field(default_factory=dict)
    checkpoints: CheckpointPlace | None = None
    spot: Spot | None = None
    vpc: Vpc | None = None
    keys: Keys = Keys()
    profiler: Profiler | None = None
    """None: as SageMaker does by default."""
    encrypt_traffic: values.Truth = False
    tuning: Tuning | None = None
    """None: one training job."""
    tags: Mapping[values.Tag, values.TagValue] = field(default_factory=dict)
    region: Region | None = None
    """None: the region of AWS's own configuration."""

    @property
    def grouped(self) -> bool:
        """Whether the request names groups; else there is one, called HOMOGENEOUS_GROUP."""
        return self.instances is None

    @property
    def pipeline(self) -> dict[str, Value]:
        """The pipeline arguments that are set, by name."""
        return {name: value for name, value in vars(self.pipeline_arguments).items() if value is not None}

    @property
    def copied_bytes(self) -> int:
        """Size of the channels that SageMaker copies to each host, by their local directories; 0 if there are none."""
        copied = [each.local for each in self.channels.values() if each.local and each.mode == FILE and each.uri]
        folders = [Path(self.file.path).parent / local for local in copied]
        return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())

    @property
    def dnn(self) -> JobGroup:
        return next(group for group in self.groups.values() if group.role == DNN)

    @property
    def data(self) -> JobGroup | None:
        return next((group for group in self.groups.values() if group.role == DATA), None)

    @property
    def ranked_hosts(self) -> int:
        return hosts_with_ranks(self.hyperparameters, self.dnn.count)

    @property
    def ranks(self) -> int:
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

    def where(self, group: JobGroup) -> str:
        """The part of the file that a group is in."""
        return f"groups: {group.name}" if self.grouped else "instances"

    def mistake(self, where: str, why: str) -> UsageError:
        """As `YamlFile.mistake`."""
        return self.file.mistake(where, why)
