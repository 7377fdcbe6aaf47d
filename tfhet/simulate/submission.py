"""What is submitted to a simulated cluster: the command, its data, and how it is to be started."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

from tfhet import planes
from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, DNN, ROLES, Group, HostPaths, Ports, Role, Roles, free_ports
from tfhet.container.bridge import SUBNET
from tfhet.errors import ClusterError, UsageError, unknown
from tfhet.launch.assignment import known
from tfhet.launch.settings import LaunchSettings
from tfhet.planes import DataPlane
from tfhet.simulate.cluster_file import ClusterFile, GroupFile
from tfhet.simulate.host import SimulatedHost

GROUNDS = ("process", "namespace")
"""What hosts are: process trees, or containers with a network, root and limits of their own."""
STARTS: Mapping[str, tuple[str, ...]] = {"process": ("ranks", "alone"), "namespace": ("toolkit", "alone")}
"""How launchers are started, by ground, the usual way first: `ranks`, as horovodrun does, one launcher for each rank;
`alone`, one on each host, which forms the ring by itself; `toolkit`, by the `train` command of SageMaker's toolkit."""
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
    ground: str = "process"
    """One of GROUNDS."""
    start: str = "ranks"
    """One of STARTS."""
    code: Path = field(default_factory=Path.cwd)
    """The directory that hosts see as their code."""
    checkpoints: Path | None = None
    """A directory that outlives the run; None: each host has its own."""
    input_mode: str = "File"
    """One of INPUT_MODES."""
    cpu_scale: float | str | None = None
    """How much of an instance's CPUs, memory and bandwidth a host gets: a factor, `fit`, or None for all there is."""
    limits_from: str = "start"
    """When the limits begin: at the `start`, or when the ranks begin `reading`; which CPUs a host may run on holds from
    the start."""
    libraries: Path | None = None
    """A directory for copies of TensorFlow's libraries, so that namespace hosts with other CPUs do not share the memory
    that they run out of (`tfhet.container.libraries`); None: they share it."""
    input_modes: Mapping[str, str] = field(default_factory=dict)
    """Of channels that have one of their own, by name."""
    channel_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Groups that see a channel, by its name; all see one that is not here."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the job's own."""
    parameters: Mapping[str, str] | None = None
    """Hyperparameters of the job, each a JSON value as text; None: those of the command. With those of the toolkit, as
    a request has them, they are all."""

    def __post_init__(self) -> None:
        if self.ground not in GROUNDS:
            unknown("kind of hosts", self.ground, GROUNDS)
        if self.start not in STARTS[self.ground]:
            unknown(f"start on {self.ground} hosts", self.start, STARTS[self.ground])
        for mode in (self.input_mode, *self.input_modes.values()):
            if mode not in INPUT_MODES:
                unknown("input mode", mode, INPUT_MODES)
        if self.limits_from not in LIMIT_TIMES:
            unknown("time of limits", self.limits_from, LIMIT_TIMES)
        if self.libraries is not None and self.ground != "namespace":
            raise UsageError("libraries of their own: process hosts share this machine's files; use --hosts namespace")
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
        """With the cluster file's own launcher arguments, a name for the job, and the usual start."""
        usual = STARTS[hosts][0] if hosts in STARTS else ""
        words = [*command[:1], *cluster.arguments(), *command[1:]]
        job = f"{cluster.name}-{datetime.fromtimestamp(SYSTEM.wall()):%Y%m%d-%H%M%S}"
        return cls(cluster, words, job, hosts, start or usual, code or Path.cwd(), **options)  # type: ignore[arg-type]

    @property
    def program(self) -> Path:
        """The Python file, on this machine; a relative one is looked for in the code directory."""
        return self.code / self.command[0]

    def seen_by(self, group: str, channels: Mapping[str, T]) -> dict[str, T]:
        """Those of some channels that a group sees."""
        return {name: each for name, each in channels.items() if group in self.channel_groups.get(name, (group,))}

    def mode(self, channel: str) -> str:
        """The input mode of a channel."""
        return self.input_modes.get(channel, self.input_mode)

    @property
    def settings(self) -> LaunchSettings:
        """The launcher's own, out of the command."""
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
        further = (role for role in known(self.settings) if role not in ROLES and role.group == group)
        return DNN if group == self.dnn_group else next(further, DATA)

    def hosts(self, folder: Path, seed: int, detours: bool = False) -> list[SimulatedHost]:
        """The cluster's hosts, with their files below `folder`.

        Names are dealt out to groups at random, as SageMaker does: algo-1 may be anything. detours: whether the hosts
        reach the chief's through forwarders. Raises UsageError when none would train.
        """
        dnn_group, settings = self.dnn_group, self.settings
        groups = [(name, group) for name, group in self.cluster.groups.items() for _ in range(group.hosts)]
        random.Random(seed).shuffle(groups)
        plane, own_network = self.plane, self.ground == "namespace"
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
        """What resourceconfig.json says on `host`, one of `hosts`."""

        def members(name: str, group: GroupFile) -> dict[str, object]:
            names = [h.name for h in hosts if h.group == name]
            return {"instance_group_name": name, "instance_type": group.instance_type, "hosts": names}

        return {
            "current_host": host.name,
            "current_instance_type": host.instance_type,
            "current_group_name": host.group,
            "hosts": [h.name for h in hosts],
            "instance_groups": [members(name, group) for name, group in self.cluster.groups.items()],
            "network_interface_name": "eth0" if self.ground == "namespace" else "lo",
        }
