"""What is submitted to a simulated cluster: the command, its data, and how it is to be started."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar

from tfhet import planes
from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, DNN, ROLES, Group, HostPaths, Ports, Role, Roles, free_ports
from tfhet.container import SUBNET
from tfhet.errors import ClusterError, UsageError, unknown
from tfhet.launch import LaunchSettings, known_roles
from tfhet.planes import DataPlane
from tfhet.simulate.cluster_file import DIGITS, ClusterFile, GroupFile
from tfhet.simulate.host import SimulatedHost, hyperparameters
from tfhet.submit import ALONE, PIPE, Channel, Job, check_code

HOST_KINDS = ("process", "namespace")
"""Kinds of hosts: process trees, or containers with a network, root and limits of their own."""
STARTS: Mapping[str, tuple[str, ...]] = {"process": ("ranks", "alone"), "namespace": ("toolkit", "alone")}
"""Ways to start launchers by kind of hosts, the default first: `ranks`, as horovodrun does, one launcher per rank;
`alone`, one per host, which together form Horovod's ring; `toolkit`, by the `train` command of SageMaker's toolkit."""
INPUT_MODES = ("File", "FastFile")
LIMIT_TIMES = ("start", "reading")
T = TypeVar("T")


@dataclass(frozen=True)
class Submission:
    """A command for every host of a cluster."""

    cluster: ClusterFile
    command: Sequence[str]
    """A Python file, and the launcher's arguments: those of the cluster file and then the user's."""
    job: str
    """Name of the training job."""
    host_kind: str = "process"
    """One of HOST_KINDS."""
    start: str = "ranks"
    """One of STARTS."""
    code: Path = field(default_factory=Path.cwd)
    """The directory that hosts see as their code."""
    checkpoints: Path | None = None
    """A directory that outlives the run; None: each host has its own."""
    input_mode: str = "File"
    """One of INPUT_MODES."""
    cpu_scale: float | str | None = None
    """Scale of an instance's CPUs, memory and bandwidth: a factor, `fit`, or None for no limit."""
    limits_from: str = "start"
    """When the limits begin: at the `start`, or when the ranks begin `reading`; CPU sets hold from the start."""
    input_modes: Mapping[str, str] = field(default_factory=dict)
    """Input modes by channel, where they differ from `input_mode`."""
    channel_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Groups that see a channel, by its name; all groups see other channels."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The job's own variables."""
    parameters: Mapping[str, str] | None = None
    """Hyperparameters of the job, each a JSON value as text; None: those of the command. With the toolkit's own among
    them, as in a request, they are complete."""

    def __post_init__(self) -> None:
        if self.host_kind not in HOST_KINDS:
            unknown("kind of hosts", self.host_kind, HOST_KINDS)
        if self.start not in STARTS[self.host_kind]:
            unknown(f"start on {self.host_kind} hosts", self.start, STARTS[self.host_kind])
        for mode in (self.input_mode, *self.input_modes.values()):
            if mode not in INPUT_MODES:
                unknown("input mode", mode, INPUT_MODES)
        if self.limits_from not in LIMIT_TIMES:
            unknown("time of limits", self.limits_from, LIMIT_TIMES)
        if not self.command or not self.program.is_file():
            raise UsageError(
                f"the command {' '.join(self.command) or '(none)'}: expected a Python file, like scripts/launcher.py"
            )

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
        """Adds the cluster file's own launcher arguments, a name for the job, and the default start."""
        usual = STARTS[hosts][0] if hosts in STARTS else ""
        words = [*command[:1], *cluster.arguments(), *command[1:]]
        job = f"{cluster.name}-{datetime.fromtimestamp(SYSTEM.wall()):%Y%m%d-%H%M%S}"
        return cls(cluster, words, job, hosts, start or usual, code or Path.cwd(), **options)  # type: ignore[arg-type]

    @property
    def program(self) -> Path:
        """The Python file, on this machine; a relative one is looked for in the code directory."""
        return self.code / self.command[0]

    def seen_by(self, group: str, channels: Mapping[str, T]) -> dict[str, T]:
        """The channels that a group sees."""
        return {name: each for name, each in channels.items() if group in self.channel_groups.get(name, (group,))}

    def mode(self, channel: str) -> str:
        """The input mode of a channel."""
        return self.input_modes.get(channel, self.input_mode)

    @property
    def settings(self) -> LaunchSettings:
        """The launcher's settings in the command."""
        return LaunchSettings.parse(self.command[1:])[0]

    @property
    def plane(self) -> DataPlane:
        """The data plane that the launchers will choose; the first candidate where they will refuse the job."""
        settings, groups = self.settings, self.cluster.groups
        hosts = {name: tuple(f"{name}-{n}" for n in range(group.hosts)) for name, group in groups.items()}
        by_role = {self.role(name).name: Group(name, hosts[name], None) for name in groups}
        if DNN.name not in by_role:
            return planes.candidates(settings.data_plane)[0]
        try:
            return planes.chosen(settings.data_plane, settings.planes, Roles(by_role, DNN))
        except ClusterError:
            return planes.candidates(settings.data_plane)[0]

    @property
    def dnn_group(self) -> str:
        """Name of the group that trains."""
        return self.cluster.training_group(self.settings.dnn_group)

    def role(self, group: str) -> Role:
        """The role that the launchers will give a group."""
        further = (role for role in known_roles(self.settings) if role not in ROLES and role.group == group)
        return DNN if group == self.dnn_group else next(further, DATA)

    def hosts(self, folder: Path, seed: int, detours: bool = False) -> list[SimulatedHost]:
        """The cluster's hosts, with their files below `folder`.

        Names are dealt out to groups at random, as SageMaker does: algo-1 may be in any group. detours: whether the
        hosts reach the leader's through forwarders. Raises UsageError when none would train.
        """
        dnn_group, settings = self.dnn_group, self.settings
        groups = [(name, group) for name, group in self.cluster.groups.items() for _ in range(group.hosts)]
        random.Random(seed).shuffle(groups)
        plane, own_network = self.plane, self.host_kind == "namespace"
        role_of = {name: self.role(name) for name in self.cluster.groups}
        wanted = {role: plane.ports(settings.planes[plane.name], role) for role in {DNN, *role_of.values()}}
        shared = tuple(name for name, ports in wanted[DNN].items() if ports.is_shared)
        roles = [role_of[name] for name, _ in groups]
        own = sum(ports.count for role in roles for ports in wanted[role].values() if not ports.is_shared)
        count = 1 + len(shared)
        free = iter(() if own_network else free_ports(count + own + count * len(groups) * detours))
        leader = {name: wanted[DNN][name].first if own_network else next(free) for name in shared}
        control = settings.control_port if own_network else next(free)
        hosts: list[SimulatedHost] = []
        for index, ((group, spec), role) in enumerate(zip(groups, roles, strict=True), start=1):
            name = f"algo-{index}"
            of_plane = {
                kind: (leader[kind],)
                if ports.is_shared
                else tuple(ports.first + i if own_network else next(free) for i in range(ports.count))
                for kind, ports in wanted[role].items()
            }
            is_leader = role is DNN and all(host.group != group for host in hosts)
            detour = tuple(next(free) for _ in range(count)) if detours and not is_leader and not own_network else None
            address = str(ip_network(SUBNET if own_network else "127.0.0.0/24")[index + 1])
            paths = HostPaths(folder.resolve() / "hosts" / name)
            serves = any(of_plane[kind] for kind in of_plane if kind not in shared)
            hosts.append(
                SimulatedHost(
                    name,
                    group,
                    spec.instance_type,
                    address,
                    Ports(control, of_plane),
                    spec.ranks if role is DNN else 1,
                    paths,
                    shared,
                    serves,
                    detour,
                    role.name,
                )
            )
        if not any(host.group == dnn_group for host in hosts):
            there = ", ".join(f"{name} ({group.hosts} hosts)" for name, group in self.cluster.groups.items())
            raise UsageError(
                f"cluster {self.cluster.name!r}: no host trains: there is no group {dnn_group!r} with hosts; "
                f"groups: {there}"
            )
        return hosts

    def resource_config(self, host: SimulatedHost, hosts: Sequence[SimulatedHost]) -> dict[str, object]:
        """Content of resourceconfig.json on `host`, one of `hosts`."""

        def members(name: str, group: GroupFile) -> dict[str, object]:
            names = [h.name for h in hosts if h.group == name]
            return {"instance_group_name": name, "instance_type": group.instance_type, "hosts": names}

        return {
            "current_host": host.name,
            "current_instance_type": host.instance_type,
            "current_group_name": host.group,
            "hosts": [h.name for h in hosts],
            "instance_groups": [members(name, group) for name, group in self.cluster.groups.items()],
            "network_interface_name": "eth0" if self.host_kind == "namespace" else "lo",
        }


def of_job(job: Job, more: Sequence[str] = ()) -> tuple[ClusterFile, list[str], dict[str, Any]]:
    """Cluster, command and options of `Submission.of` for a job file.

    more: `--NAME VALUE` words that win over the file's hyperparameters. Raises UsageError for code that would not
    start, and for a channel that is a pipe, which no simulated host has.
    """
    check_code(job)
    for channel in job.channels:
        if channel.mode == PIPE:
            job.refuse(f"channels: {channel.name}: mode", "must be File or FastFile in a simulation")
    groups = {group.name: GroupFile(group.count, max(1, group.ranks), group.instance_type) for group in job.groups}
    cluster = ClusterFile(job.name, groups, {channel.name: _directory(job, channel) for channel in job.channels})
    given = hyperparameters(["", *more], "") if more else {}
    parameters = {name: json.dumps(value) for name, value in job.parameters.items()}
    parameters |= {name: value for name, value in given.items() if not name.startswith("sagemaker_")}
    options = {
        **({"start": ALONE} if job.start == ALONE else {}),
        "code": job.code.directory,
        "environment": job.environment,
        "input_modes": {channel.name: channel.mode for channel in job.channels},
        "channel_groups": {channel.name: channel.groups for channel in job.channels if channel.groups},
        "parameters": parameters,
    }
    return cluster, [job.code.script, *job.arguments, *more], options


def _directory(job: Job, channel: Channel) -> str:
    """Relative to the job file; the URI, which is no directory, for a channel without a local one."""
    if channel.local is None:
        return channel.uri
    if Path(channel.local).parts[:1] == (DIGITS,):
        return channel.local
    return str(Path(job.file).parent / channel.local)
