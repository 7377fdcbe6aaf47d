"""Facts about a cluster file on this machine, and rules that judge them."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet import arguments, strategies
from tfhet.catalogue import Instance, default
from tfhet.cluster import ROLES, Cluster, Group, Identity, PortRange, Ports, roles
from tfhet.doctor.rule import RuleAnswer, Subject, limited, ok, wrong
from tfhet.errors import ClusterError, UsageError
from tfhet.launch import LaunchSettings, known_roles
from tfhet.planes.tf_service import ServiceSettings
from tfhet.record import usable_cores
from tfhet.simulate import BASE_BYTES, DIGITS, PROCESS_BYTES, ClusterFile, GroupFile, load
from tfhet.units import GIB, MIB

FILES_PER_WORKER = 4
"""Recommended minimum, so that no worker waits long at the end of an epoch."""


@dataclass(frozen=True)
class ClusterFacts:
    cluster: ClusterFile
    settings: LaunchSettings
    """Launcher arguments of the file; the defaults if they are wrong."""
    refused: str
    """The launcher's error message about them; may be empty."""
    types: Mapping[str, Instance]
    unknown_types: Mapping[str, str]
    """Error message, with similar names, of each type that the catalogue lacks."""
    mistyped: Mapping[str, str]
    """Arguments for the script that resemble a launcher's, each with that one."""
    files: Mapping[str, int | None]
    """Number of input files by channel; None if the directory does not exist."""
    cpus: int
    memory_bytes: int

    @property
    def dnn(self) -> GroupFile | None:
        """The group that trains; None if the file lacks it."""
        return self.cluster.groups.get(self.cluster.training_group(self.settings.dnn_group))

    @property
    def dnn_hosts(self) -> int:
        return self.dnn.hosts if self.dnn else 0

    @property
    def data_hosts(self) -> int:
        further = {role.group for role in known_roles(self.settings) if role not in ROLES}
        groups = self.cluster.groups.items()
        return sum(group.hosts for name, group in groups if name not in further) - self.dnn_hosts

    @property
    def service(self) -> ServiceSettings:
        return ServiceSettings.of(self.settings.planes)

    @property
    def workers(self) -> int:
        """Workers of the data service in the whole cluster."""
        return self.data_hosts * self.service.data_host_workers + self.dnn_hosts * self.service.dnn_host_workers


def look(name: str) -> ClusterFacts:
    """Returns the facts about a cluster file or preset. Raises UsageError if it cannot be read."""
    cluster = load(name)
    try:
        (settings, rest), refused = LaunchSettings.parse(cluster.arguments()), ""
    except UsageError as error:
        settings, rest, refused = LaunchSettings(), [], str(error)
    types, unknown_types, known = {}, {}, default()
    for group in cluster.groups.values():
        try:
            types[group.instance_type] = known.instance(group.instance_type)
        except UsageError as error:
            unknown_types[group.instance_type] = str(error)
    # the demonstration data are written at first use
    files = {channel: _files(Path(at)) for channel, at in cluster.channels.items() if Path(at).parts[:1] != (DIGITS,)}
    mistyped, memory_bytes = dict(_mistyped(rest)), int(psutil.virtual_memory().total)
    return ClusterFacts(cluster, settings, refused, types, unknown_types, mistyped, files, usable_cores(), memory_bytes)


def _mistyped(rest: list[str]) -> Iterator[tuple[str, str]]:
    own = [item.name for kind in (LaunchSettings, ServiceSettings) for item in arguments.declared(kind)]
    for word in rest:
        name = word.removeprefix("--").replace("-", "_")
        for near in difflib.get_close_matches(name, own, n=1, cutoff=0.8) if word.startswith("--") else ():
            yield word, f"--{near}"


def _files(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    names = [each.name for each in folder.rglob("*") if each.is_file() and not each.name.startswith((".", "tfhet."))]
    return len([name for name in names if ".tfrecord" in name]) or len(names)


CLUSTER: Subject[ClusterFacts] = Subject("cluster")


@CLUSTER.rule("launcher arguments", "the launchers refuse wrong ones, on every host")
def launcher_arguments(facts: ClusterFacts) -> RuleAnswer:
    given = ", ".join(f"{name} {value}" for name, value in facts.cluster.launcher.items()) or "the defaults"
    return wrong(facts.refused, "correct it under `launcher:`", when=facts.refused, otherwise=given)


@CLUSTER.rule("mistyped arguments", "what the launcher does not know goes to the script, without a warning")
def mistyped_arguments(facts: ClusterFacts) -> RuleAnswer:
    found = ", ".join(f"{word} is none of the launcher's" for word in facts.mistyped)
    what = f"if it was meant for the launcher: {', '.join(facts.mistyped.values())}"
    return limited(found, what, when=facts.mistyped, otherwise="none")


@CLUSTER.rule("groups", "each group delivers data or trains")
def groups(facts: ClusterFacts) -> RuleAnswer:
    names = (f"algo-{number}" for number in itertools.count(1))
    given = facts.cluster.groups.items()
    made = tuple(Group(name, tuple(itertools.islice(names, one.hosts)), one.instance_type) for name, one in given)
    try:
        roles(Identity("", made[0].name, Cluster(made, "")), facts.settings.groups, known_roles(facts.settings))
    except ClusterError as error:
        return wrong(str(error), "change the groups, or give data_group and dnn_group under `launcher:`")
    return ok(Cluster(made, "").describe())


@CLUSTER.rule("strategy", "the leader refuses ranks that it cannot train")
def strategy(facts: ClusterFacts) -> RuleAnswer | None:
    if facts.dnn is None:
        return None
    chosen = strategies.chosen(facts.settings.strategy, facts.dnn_hosts * facts.dnn.ranks)
    try:
        chosen.meeting([f"dnn-{number}" for number in range(facts.dnn_hosts)], facts.dnn.ranks, strategies.OWN)
    except UsageError as error:
        return wrong(str(error), "change the strategy under `launcher:`, or the hosts and ranks of the dnn group")
    lacks = [role.group for role in chosen.roles if role.group not in facts.cluster.groups]
    return wrong(f"no {' and no '.join(lacks)}", f"give {chosen.name} that group", when=lacks, otherwise=chosen.name)


@CLUSTER.rule("workers", "a host without a task ends the job before it starts")
def workers(facts: ClusterFacts) -> RuleAnswer:
    what = "set data_host_workers to 1 or more, or remove the data group"
    ranks = facts.dnn.hosts * facts.dnn.ranks if facts.dnn else 0
    has_idle_hosts = facts.data_hosts and not facts.service.data_host_workers
    sound = f"{facts.workers}, and {ranks} ranks"
    return wrong("data hosts without workers", what, when=has_idle_hosts, otherwise=sound)


@CLUSTER.rule("ports of a host", "each process of a host needs a port of its own")
def ports(facts: ClusterFacts) -> RuleAnswer:
    control, service = facts.settings.control_port, facts.service
    most = max(service.data_host_workers, service.dnn_host_workers)
    plane = {"dispatcher": PortRange(service.dispatcher_port), "workers": PortRange(service.worker_port, most)}
    try:
        Ports.from_env({}, control=control, plane=plane)
    except UsageError as error:
        return wrong(str(error), "give control_port, dispatcher_port and worker_port ports of their own")
    return ok(f"{control}, {service.dispatcher_port}, and from {service.worker_port} on")


@CLUSTER.rule("instance types", "sizes and prices come from the type")
def types(facts: ClusterFacts) -> RuleAnswer:
    found = "; ".join(facts.unknown_types.values())
    what = "correct it, or give its group cpus, memory_mib and mbit_per_s"
    return limited(found, what, when=found, otherwise=", ".join(facts.types))


@CLUSTER.rule("ranks and GPUs", "ranks that share a GPU wait for each other; a GPU without a rank is paid for")
def gpus(facts: ClusterFacts) -> RuleAnswer | None:
    if facts.dnn is None or (row := facts.types.get(facts.dnn.instance_type)) is None:
        return None
    ranks, found = facts.dnn.ranks, f"{facts.dnn.ranks} ranks on {row.name}, which has {row.gpus or 'no'} GPUs"
    if row.gpus and ranks > row.gpus:
        return limited(found, f"at most ranks: {row.gpus}; a simulator emulates missing GPUs, the cloud does not")
    return limited(found, f"ranks: {row.gpus}, or a smaller type", when=ranks < row.gpus)


@CLUSTER.rule("CPU quotas", "hosts that are busy at once get less than their quota when there are too few CPUs")
def cpu_quotas(facts: ClusterFacts) -> RuleAnswer:
    wanted = sum(group.hosts * (group.cpus or 0.0) for group in facts.cluster.groups.values())
    found = f"{wanted:g} CPUs for all hosts, {facts.cpus} on this machine"
    what = f"scale `cpus` down by a factor of at least {wanted / facts.cpus:.2g}"
    return limited(found, what, when=wanted > facts.cpus, otherwise=found if wanted else "none")


@CLUSTER.rule("memory of the hosts", "the kernel kills a process of the job when memory runs out")
def memory(facts: ClusterFacts) -> RuleAnswer:
    needed = 0.0
    for name, group in facts.cluster.groups.items():
        of_dnn = group.ranks + facts.service.dnn_host_workers
        processes = of_dnn if group is facts.dnn else facts.service.data_host_workers
        least = processes * PROCESS_BYTES + BASE_BYTES
        given = least if group.memory_mib is None else group.memory_mib * MIB
        if given < least:
            found = f"{name}: {given / GIB:.1f} GiB for {processes} processes with TensorFlow"
            return limited(found, f"memory_mib {least / MIB:.0f}, or fewer workers or ranks")
        needed += group.hosts * given
    found = f"{needed / GIB:.1f} GiB for all hosts, {facts.memory_bytes / GIB:.1f} on this machine"
    return limited(found, "fewer hosts, workers or ranks", when=needed > facts.memory_bytes)


@CLUSTER.rule("channels", "the job does not see a directory that does not exist")
def channels(facts: ClusterFacts) -> RuleAnswer | None:
    if not facts.cluster.channels:
        return None
    lost = [f"{name}: {facts.cluster.channels[name]}" for name, count in facts.files.items() if count is None]
    what = "correct the path; it is relative to where tfhet starts"
    return wrong(f"no such directory: {', '.join(lost)}", what, when=lost, otherwise=", ".join(facts.cluster.channels))


@CLUSTER.rule("files and workers", "each file goes to one worker")
def files(facts: ClusterFacts) -> RuleAnswer | None:
    counted = {name: count for name, count in facts.files.items() if count is not None}
    if not counted or not facts.workers:
        return None
    name, least = min(counted.items(), key=lambda item: item[1])
    return files_for_workers(least, f"files in {name}", facts.workers)


def files_for_workers(count: int, unit: str, workers: int) -> RuleAnswer:
    """Judges whether each worker has enough files, or other source elements."""
    found, wanted = f"{count} {unit}, {workers} workers", FILES_PER_WORKER * workers
    if count < workers:
        what = f"write the data into {wanted} files or more, or take fewer workers"
        return limited(f"{found}: {workers - count} of them idle", what)
    return limited(found, f"{wanted} files keep all of them busy to the end of an epoch", when=count < wanted)
