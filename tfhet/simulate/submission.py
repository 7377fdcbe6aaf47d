"""A job for a simulated cluster: the command, its data, and how it is started."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from tfhet import planes, strategies
from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, DNN, ROLES, Group, Role, Roles
from tfhet.errors import ClusterError, UsageError, check_known
from tfhet.launch import LaunchSettings, known_roles
from tfhet.planes import DataPlane
from tfhet.simulate.cluster_file import DIGITS, ClusterFile, GroupFile
from tfhet.strategies.horovod import HOROVOD
from tfhet.submit import ALONE, LAUNCHER, PIPE, Channel, Job, check_code
from tfhet.trainer import Settings

STARTS: Mapping[str, tuple[str, ...]] = {"process": ("ranks", "alone"), "namespace": ("toolkit", "alone")}
"""Ways to start launchers by kind of hosts, the default first: `ranks`, one per rank, like horovodrun; `alone`, one per
host, which starts the launchers of its ranks (every strategy but Horovod's); `toolkit`, by SageMaker's `train`."""
INPUT_MODES = ("File", "FastFile")
LIMIT_TIMES = ("start", "reading")
T = TypeVar("T")


@dataclass(frozen=True)
class Submission:
    cluster: ClusterFile
    command: Sequence[str]
    """A Python file, then the arguments of the cluster file, then the user's."""
    job: str
    host_kind: str = "process"
    """A key of STARTS."""
    start: str = "ranks"
    """One of STARTS[host_kind]."""
    code: Path = field(default_factory=Path.cwd)
    """The directory that hosts see as their code."""
    checkpoints: Path | None = None
    """A directory that is kept after the run; None: each host has its own."""
    input_mode: str = "File"
    """One of INPUT_MODES."""
    cpu_scale: float | str | None = None
    """Scale of an instance's CPUs, memory and bandwidth: a factor, `fit`, or None for no limit."""
    limits_from: str = "start"
    """When the limits begin: at the `start`, or when the ranks begin `reading`; CPU sets apply from the start."""
    input_modes: Mapping[str, str] = field(default_factory=dict)
    """Input modes of the channels that differ from `input_mode`."""
    channel_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Groups that see a channel, by its name; all groups see the other channels."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    parameters: Mapping[str, str] | None = None
    """Hyperparameters, each a JSON value as text; None: the command's. They are complete, as in a request to SageMaker,
    if they include the toolkit's own."""

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("kind of hosts", self.host_kind, STARTS),
            (f"start on {self.host_kind} hosts", self.start, STARTS.get(self.host_kind, ())),
            *(("input mode", mode, INPUT_MODES) for mode in (self.input_mode, *self.input_modes.values())),
            ("time of limits", self.limits_from, LIMIT_TIMES),
        ):
            check_known(kind, name, known)
        if not self.command or not self.program.is_file():
            words = " ".join(self.command) or "(none)"
            raise UsageError(f"the command {words}: expected a Python file, or the arguments of tfhet launch")
        script = self.settings.train_script
        if script and not Path(script).is_absolute() and not (self.code / script).is_file():
            raise UsageError(f"--train_script {script}: no such file in {self.code} (--source_dir)")
        if not script and self.program == LAUNCHER and self.parameters is None:
            self._check_channel()

    def _check_channel(self) -> None:
        """Raises UsageError if the built-in trainer would not find its channel."""
        data, channels = Settings.parse(self.command[1:]).data, self.seen_by(self.dnn_group, self.cluster.channels)
        if data.partition(":")[0] != "synthetic" and data not in channels:
            names = ", ".join(channels) or "none"
            raise UsageError(f"channel {data!r} is missing: the cluster {self.cluster.name!r} has {names}")

    @classmethod
    def of(
        cls,
        cluster: ClusterFile,
        command: Sequence[str],
        *,
        hosts: str = "process",
        start: str | None = None,
        code: Path | None = None,
        **options: object,
    ) -> Submission:
        """Makes a submission with a job name, the default start and the cluster file's launcher arguments. A command
        that begins with an argument runs tfhet's own launcher."""
        usual = STARTS[hosts][0] if hosts in STARTS else ""
        if command and command[0].startswith("--"):
            command = [str(LAUNCHER), *command]
        words = [*command[:1], *cluster.arguments(), *command[1:]]
        if usual == "ranks" and strategies.chosen(LaunchSettings.parse(words[1:])[0].strategy, 2) is not HOROVOD:
            usual = ALONE
        return cls(cluster, words, named_now(cluster), hosts, start or usual, code or Path.cwd(), **options)  # type: ignore[arg-type]

    @property
    def program(self) -> Path:
        """The Python file on this machine; relative paths are relative to the code directory."""
        return self.code / self.command[0]

    def seen_by(self, group: str, channels: Mapping[str, T]) -> dict[str, T]:
        return {name: each for name, each in channels.items() if group in self.channel_groups.get(name, (group,))}

    def mode(self, channel: str) -> str:
        return self.input_modes.get(channel, self.input_mode)

    @property
    def settings(self) -> LaunchSettings:
        return LaunchSettings.parse(self.command[1:])[0]

    @property
    def ranks_per_host(self) -> int | None:
        """Number of ranks of each dnn host, if the strategy determines it; None: as in the cluster file."""
        name = self.settings.strategy
        return None if name == strategies.AUTO else strategies.get(name).ranks_per_host

    @property
    def plane(self) -> DataPlane:
        """The data plane that the launchers will choose; the first candidate if they will refuse the job."""
        settings = self.settings
        by_role = {
            self.role(name).name: Group(name, tuple(f"{name}-{n}" for n in range(group.hosts)), None)
            for name, group in self.cluster.groups.items()
        }
        if DNN.name in by_role:
            with contextlib.suppress(ClusterError):
                return planes.chosen(settings.data_plane, settings.planes, Roles(by_role, DNN))
        return planes.candidates(settings.data_plane)[0]

    @property
    def dnn_group(self) -> str:
        return self.cluster.training_group(self.settings.dnn_group)

    def role(self, group: str) -> Role:
        """The role that the launchers will assign to a group."""
        further = (role for role in known_roles(self.settings) if role not in ROLES and role.group == group)
        return DNN if group == self.dnn_group else next(further, DATA)


def hyperparameters(command: Sequence[str], job: str) -> dict[str, str]:
    """Hyperparameters, each a JSON value as text, for a command: a file and `--NAME VALUE` words."""
    words = [*command[1:], ""]
    given = {name[2:]: value for name, value in zip(words, words[1:], strict=False) if name.startswith("--")}
    parameters = {"sagemaker_program": command[0], "sagemaker_job_name": job, **given}
    return {name: value if _is_json(value) else json.dumps(value) for name, value in parameters.items()}


def _is_json(text: str) -> bool:
    with contextlib.suppress(ValueError):
        json.loads(text)
        return True
    return False


def named_now(cluster: ClusterFile) -> str:
    """Name of a run: NAME-TIME, to the millisecond, so that runs started together have different names."""
    return f"{cluster.name}-{datetime.fromtimestamp(SYSTEM.wall()):%Y%m%d-%H%M%S-%f}"[:-3]


def of_job(job: Job, more: Sequence[str] = ()) -> tuple[ClusterFile, list[str], dict[str, Any]]:
    """Converts a job file for the simulation to the cluster, the command, and options of `Submission.of`. more: `--NAME
    VALUE` words that win over the file's hyperparameters. Raises UsageError if the code would not start, or if a
    channel is a pipe, which simulated hosts do not support."""
    check_code(job)
    for channel in job.channels.values():
        if channel.mode == PIPE:
            raise job.mistake(f"channels: {channel.name}: mode", "must be File or FastFile in a simulation")
    groups = {
        group.name: GroupFile(group.count, max(1, group.ranks), group.instance_type) for group in job.groups.values()
    }
    cluster = ClusterFile(
        job.name, groups, {channel.name: _directory(job, channel) for channel in job.channels.values()}
    )
    given = hyperparameters(["", *more], "")
    parameters = {name: json.dumps(value) for name, value in job.parameters.items()}
    parameters |= {name: value for name, value in given.items() if not name.startswith("sagemaker_")}
    options = {
        **({"start": ALONE} if job.start == ALONE else {}),
        "code": job.code.directory,
        "environment": job.environment,
        "input_modes": {channel.name: channel.mode for channel in job.channels.values()},
        "channel_groups": {channel.name: channel.groups for channel in job.channels.values() if channel.groups},
        "parameters": parameters,
    }
    return cluster, [job.code.script, *job.arguments, *more], options


def _directory(job: Job, channel: Channel) -> str:
    """Its local directory, which is relative to the job file; by default the URI, which is not a directory."""
    if channel.local is None:
        system = channel.file_system
        return f"{system.kind}://{system.id}{system.directory}" if system else channel.uri
    if Path(channel.local).parts[:1] == (DIGITS,):
        return channel.local
    return str(Path(job.file.path).parent / channel.local)
