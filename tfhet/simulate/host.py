"""Simulated hosts, laid out like SageMaker's, and the interface that process trees and containers implement."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from tfhet.cluster import DATA, DNN, HostPaths, PortRange, Ports, free_ports
from tfhet.container import SUBNET, Cgroup, Limits, Partitions
from tfhet.errors import TfhetError, UsageError
from tfhet.process import Child
from tfhet.simulate.fault import PRELOADED, Fault, HostFaults, library
from tfhet.simulate.scale import limits_of
from tfhet.simulate.submission import Submission
from tfhet.simulate.toolkit import input_config, toolkit_variables


@dataclass(frozen=True)
class SimulatedHost:
    name: str
    group: str
    instance_type: str
    address: str
    ports: Ports
    ranks: int
    """Number of ranks of this host; 1 if it does not train."""
    paths: HostPaths
    shared: tuple[str, ...] = ()
    """Names of the data plane's ports that are the leader's, the same on all hosts."""
    serves: bool = False
    """Whether processes of the data plane prepare batches here."""
    detour: tuple[int, ...] | None = None
    """Ports at which this host reaches the leader's control and shared ports; None: the ports themselves."""
    role: str = DATA.name

    @property
    def port_variables(self) -> dict[str, str]:
        """Environment variables with the ports, for the launchers of this host."""
        ports = self.ports
        if self.detour is not None:
            others = {name: (port,) for name, port in zip(self.shared, self.detour[1:], strict=True)}
            ports = Ports(self.detour[0], {**ports.plane, **others})
        return ports.to_env(self.shared)

    def write(self, resources: Mapping[str, object], modes: Mapping[str, str], parameters: Mapping[str, str]) -> None:
        """Makes the base directory, without `directories`. modes: input mode by channel."""
        paths = self.paths
        for directory in (paths.input_config, paths.input_data, paths.model, paths.output_data):
            directory.mkdir(parents=True, exist_ok=True)
        for file, content in (
            (paths.input_config / "inputdataconfig.json", input_config(modes)),
            (paths.resource_config, resources),
            (paths.hyperparameters, parameters),
        ):
            file.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def directories(self, channels: Mapping[str, Path], code: Path, checkpoints: Path | None) -> dict[Path, Path]:
        """Directories of this machine, by their place below the host's base directory."""
        seen = {self.paths.channel(name): directory.resolve() for name, directory in channels.items()}
        seen[self.paths.code] = code.resolve()
        if checkpoints is None:
            self.paths.checkpoints.mkdir(exist_ok=True)
        else:
            checkpoints.mkdir(parents=True, exist_ok=True)
            seen[self.paths.checkpoints] = checkpoints.resolve()
        return seen

    def variables(
        self,
        resources: Mapping[str, Any],
        modes: Mapping[str, str],
        parameters: Mapping[str, str],
        job: str,
        command: Sequence[str],
    ) -> dict[str, str]:
        """The variables that SageMaker's platform and toolkit set for an entry point on this host; see
        `toolkit_variables`."""
        return {
            "SAGEMAKER_BASE_DIR": str(self.paths.base),
            "TRAINING_JOB_NAME": job,
            "SAGEMAKER_JOB_NAME": job,
            "CURRENT_HOST": self.name,
            **toolkit_variables(self.paths, resources, modes, parameters, job, command),
        }


def hosts_of(job: Submission, folder: Path, seed: int, *, detours: bool = False) -> list[SimulatedHost]:
    """The hosts of a job's cluster, with their files below `folder`. Names are assigned to groups at random, like on
    SageMaker: algo-1 may be in any group. detours: whether process hosts reach the leader's ports through forwarders.
    Raises UsageError if no host would train."""
    groups = [(name, group) for name, group in job.cluster.groups.items() for _ in range(group.hosts)]
    if not any(name == job.dnn_group for name, _ in groups):
        there = ", ".join(f"{name} ({group.hosts} hosts)" for name, group in job.cluster.groups.items())
        raise UsageError(
            f"cluster {job.cluster.name!r}: no host trains: there is no group {job.dnn_group!r} with hosts; "
            f"groups: {there}"
        )
    random.Random(seed).shuffle(groups)
    settings, plane, has_network = job.settings, job.plane, job.host_kind == "namespace"
    subnet = ip_network(SUBNET if has_network else "127.0.0.0/16")
    if len(groups) > (most_hosts := subnet.num_addresses - 4):  # the network, broadcast, the machine and this program
        raise UsageError(
            f"cluster {job.cluster.name!r}: {len(groups)} hosts; containers can be at most {most_hosts}: use "
            "--hosts process"
        )
    role_of = {name: job.role(name) for name in job.cluster.groups}
    wanted = {role: plane.ports(settings.planes[plane.name], role) for role in {DNN, *role_of.values()}}
    most = sum(1 + sum(ports.count for ports in wanted[role_of[name]].values()) for name, _ in groups)
    free = iter(() if has_network else free_ports(2 * most if detours else most))

    def numbers(ports: PortRange) -> tuple[int, ...]:
        """The platform's ports, on hosts with their own network; as many free ports on others."""
        usual = range(ports.first, ports.first + ports.count)
        return tuple(usual if has_network else itertools.islice(free, ports.count))

    shared = {name: numbers(ports) for name, ports in wanted[DNN].items() if ports.is_shared}
    (control,) = numbers(PortRange(settings.control_port))
    hosts: list[SimulatedHost] = []
    for index, (group, spec) in enumerate(groups, start=1):
        role, name = role_of[group], f"algo-{index}"
        ports_of = {kind: shared[kind] if ports.is_shared else numbers(ports) for kind, ports in wanted[role].items()}
        is_leader = role is DNN and all(host.group != group for host in hosts)
        has_detour = detours and not is_leader and not has_network
        hosts.append(
            SimulatedHost(
                name,
                group,
                spec.instance_type,
                address=str(subnet[index + 1]),
                ports=Ports(control, ports_of),
                ranks=(job.ranks_per_host or spec.ranks) if role is DNN else 1,
                paths=HostPaths(folder.resolve() / "hosts" / name),
                shared=tuple(shared),
                serves=any(ports for kind, ports in ports_of.items() if kind not in shared),
                detour=tuple(itertools.islice(free, 1 + len(shared))) if has_detour else None,
                role=role.name,
            )
        )
    return hosts


def resource_config(job: Submission, host: SimulatedHost, hosts: Sequence[SimulatedHost]) -> dict[str, object]:
    """Content of resourceconfig.json on `host`, one of `hosts`."""
    names = {name: [one.name for one in hosts if one.group == name] for name in job.cluster.groups}
    return {
        "current_host": host.name,
        "current_instance_type": host.instance_type,
        "current_group_name": host.group,
        "hosts": [one.name for one in hosts],
        "instance_groups": [
            {"instance_group_name": name, "instance_type": group.instance_type, "hosts": names[name]}
            for name, group in job.cluster.groups.items()
        ],
        "network_interface_name": "eth0" if job.host_kind == "namespace" else "lo",
    }


def hosts_named(hosts: Sequence[SimulatedHost], name: str) -> list[SimulatedHost]:
    """The hosts that a fault names: `data-1`, `dnn-1`, `algo-1`, a group, or "" for all."""
    kind, _, number = name.partition("-")
    group = [host for host in hosts if host.role == kind]
    if number and group:
        return group[int(number) - 1 : int(number)] if number.isdigit() and number != "0" else []
    return [host for host in hosts if name in ("", host.name, host.group)]


Env = Mapping[str, str]
Hosts = Sequence[SimulatedHost]
Faults = Sequence[Fault]
OnLine = Callable[[str], Callable[[str], None]]
"""Returns the function that receives the lines of a host, by its name."""


class HostBackend(abc.ABC):
    """Starts the hosts of one run, injects faults into them, and removes them."""

    starts_launchers: bool
    """Whether its children are the launchers, not containers with launchers inside."""
    cuts_batches: bool
    """Whether `network.cut` also stops batches between hosts, not only the launchers' link."""

    def __init__(self, job: Submission, hosts: Hosts, env: Env, on_line: OnLine, faults: Faults = ()):
        """env: the simulator's environment. Raises UsageError for impossible limits and faults."""
        self.job, self.hosts, self.env, self.on_line = job, hosts, env, on_line
        self.channels: Mapping[str, Path] = {}
        """Directories of this machine by channel, from `open` on."""
        self.cgroups: dict[str, Cgroup] = {}
        """Control groups of the started hosts, by name; empty if hosts have none."""
        self.not_limited: set[str] = set()
        """Names of limits that could not be set."""
        groups = {host.name: host.group for host in hosts}
        self.limits, self.notes = limits_of(job.cluster, groups, cpu_scale=job.cpu_scale)
        """Limits by host name, and notes on them for the user."""
        some = {one.name: one for fault in faults if fault.kind in PRELOADED for one in hosts_named(hosts, fault.host)}
        self.preloaded = {name: HostFaults(Path(f"{host.paths.base}.faults")) for name, host in some.items()}
        """Faults of the hosts whose processes preload the library of faults, by name."""
        if some:  # compiled now, or refused
            library(env)

    def lay_out(
        self, host: SimulatedHost, parameters: Mapping[str, str]
    ) -> tuple[dict[str, object], dict[str, str], dict[Path, Path]]:
        """Writes a host's files. Returns its resource config, the input mode of each of its channels, and
        `SimulatedHost.directories`."""
        job = self.job
        channels = job.seen_by(host.group, self.channels)
        config = resource_config(job, host, self.hosts)
        modes = {name: job.mode(name) for name in channels}
        host.write(config, modes, parameters)
        return config, modes, host.directories(channels, job.code, job.checkpoints)

    @abc.abstractmethod
    async def open(self, channels: Mapping[str, Path]) -> None:
        """Prepares the run. channels: directories of this machine. Raises UsageError."""

    @abc.abstractmethod
    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        """Starts the processes of a host, and adds each to `children` by its label, `host` or `host/rank`."""

    @abc.abstractmethod
    def limit(self) -> None:
        """Sets the limits of all hosts, including hosts that start later."""

    @property
    @abc.abstractmethod
    def network(self) -> Partitions:
        """The network of the hosts, between `open` and `close`."""

    async def impair(self, kind: str, host: str, amount: float | None) -> None:
        """Injects a fault of a kind in `fault.IMPAIRMENTS` into a host."""
        self.preloaded[host].set(kind, amount)

    def restore(self, kind: str, host: str) -> None:
        """Ends an `impair` of this kind: the host has its usual limits again."""
        self.preloaded[host].set(kind, is_on=False)

    @abc.abstractmethod
    def second_job(self, host: SimulatedHost) -> tuple[Path, Path, dict[str, str], list[str]]:
        """How to run a second job's launcher on a host: its base directory, seen from here and from the host; its
        variables; and the words before its command."""

    @abc.abstractmethod
    async def connect(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A TCP connection from outside the cluster to a host. Raises OSError."""

    def not_made(self, children: Iterable[Child]) -> str | None:
        """Why a host could not be made, as printed by a child that ended; None if none did."""
        return None

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of each host so far, by name; empty if nothing counts them."""
        with contextlib.suppress(TfhetError, OSError):
            return {name: cgroup.cpu_s() for name, cgroup in self.cgroups.items()}
        return {}

    def facts(self) -> dict[str, Any]:
        """Fields of RunSummary from the backend."""
        limits = {name: asdict(one) for name, one in self.limits.items() if one != Limits()}
        return {"not_limited": sorted(self.not_limited), "limits": limits}

    @abc.abstractmethod
    async def close(self) -> None:
        """Removes the results of `open` and `start`; the processes have ended."""
