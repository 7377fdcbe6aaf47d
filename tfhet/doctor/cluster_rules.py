"""Rules about a cluster file."""

from __future__ import annotations

import itertools
import math

from tfhet.cluster import Cluster, Group, Identity, PortRange, Ports, roles
from tfhet.doctor.cluster import ClusterFacts
from tfhet.doctor.rule import Rule, RuleAnswer, Subject, limited, ok, wrong
from tfhet.errors import ClusterError, UsageError
from tfhet.simulate.cluster_file import GroupFile
from tfhet.simulate.scale import BASE_BYTES, PROCESS_BYTES
from tfhet.units import GIB, MIB

FILES_FOR_EACH = 4
"""Files for each worker, so that none waits long for the others at the end of an epoch."""


def arguments(facts: ClusterFacts) -> RuleAnswer:
    if facts.refused:
        return wrong(facts.refused, "correct it under `launcher:`")
    return ok(", ".join(f"{name} {value}" for name, value in facts.cluster.launcher.items()) or "the usual ones")


def mistyped(facts: ClusterFacts) -> RuleAnswer:
    if facts.mistyped:
        found = ", ".join(f"{word} is none of the launcher's" for word in facts.mistyped)
        return limited(found, f"if it was meant for the launcher: {', '.join(facts.mistyped.values())}")
    return ok("none")


def groups(facts: ClusterFacts) -> RuleAnswer:
    names = (f"algo-{number}" for number in itertools.count(1))
    made = tuple(
        Group(name, tuple(itertools.islice(names, group.hosts)), group.instance_type)
        for name, group in facts.cluster.groups.items()
    )
    try:
        roles(Identity("", made[0].name, Cluster(made, "")), facts.settings.groups)
    except ClusterError as error:  # what every launcher would say
        return wrong(str(error), "change the groups, or say data_group and dnn_group under `launcher:`")
    return ok(Cluster(made, "").describe())


def workers(facts: ClusterFacts) -> RuleAnswer:
    if facts.data_hosts and not facts.service.data_host_workers:
        return wrong("data hosts without workers", "data_host_workers 1 or more, or no data group")
    return ok(f"{facts.workers}, and {facts.ranks} ranks")


def ports(facts: ClusterFacts) -> RuleAnswer:
    control, service = facts.settings.control_port, facts.service
    most = max(service.data_host_workers, service.dnn_host_workers)
    plane = {"dispatcher": PortRange(service.dispatcher_port), "workers": PortRange(service.worker_port, most)}
    try:
        Ports.from_env({}, control=control, plane=plane)
    except UsageError as error:
        return wrong(str(error), "give control_port, dispatcher_port and worker_port ports of their own")
    return ok(f"{control}, {service.dispatcher_port}, {service.worker_port} and on")


def types(facts: ClusterFacts) -> RuleAnswer:
    if facts.near:
        what = "correct it, or give its group cpus, memory_mib and mbit_per_s"
        return limited("; ".join(facts.near.values()), what)
    return ok(", ".join(facts.types))


def gpus(facts: ClusterFacts) -> RuleAnswer | None:
    group = facts.cluster.groups.get(facts.dnn_group)
    row = facts.types.get(group.instance_type) if group else None
    if group is None or row is None:
        return None
    found = f"{group.ranks} ranks on {row.name}, which has {row.gpus or 'no'} GPUs"
    if row.gpus and group.ranks > row.gpus:
        return limited(found, f"at most ranks: {row.gpus}; a simulator emulates what is not there, the cloud does not")
    if group.ranks < row.gpus:
        return limited(found, f"ranks: {row.gpus}, or a smaller type")
    return ok(found)


def cpu_quotas(facts: ClusterFacts) -> RuleAnswer:
    wanted = sum(group.hosts * (group.cpus or 0.0) for group in facts.cluster.groups.values())
    found = f"{wanted:g} CPUs for all hosts, {facts.cpus} on this machine"
    if wanted > facts.cpus:
        return limited(found, f"scale `cpus` down, at least by {wanted / facts.cpus:.2g}")
    return ok(found if wanted else "none")


def memory(facts: ClusterFacts) -> RuleAnswer:
    needed = 0.0
    for name, group in facts.cluster.groups.items():
        least = _processes(facts, name, group) * PROCESS_BYTES + BASE_BYTES
        given = least if group.memory_mib is None else group.memory_mib * MIB
        if given < least:
            found = f"{name}: {given / GIB:.1f} GiB for {_processes(facts, name, group)} processes with TensorFlow"
            return limited(found, f"memory_mib {least / MIB:.0f}, or fewer workers or ranks")
        needed += group.hosts * given
    found = f"{needed / GIB:.1f} GiB for all hosts, {facts.memory_bytes / GIB:.1f} on this machine"
    return limited(found, "fewer hosts, workers or ranks") if needed > facts.memory_bytes else ok(found)


def reserve(facts: ClusterFacts) -> RuleAnswer | None:
    group = facts.cluster.groups.get(facts.dnn_group)
    kept = facts.service.reserve_cpus
    if group is None or kept < 0 or not facts.service.dnn_host_workers:
        return None
    row = facts.types.get(group.instance_type)
    there = math.ceil(group.cpus) if group.cpus else row.vcpus if row else facts.cpus
    found = f"{kept} of {there} CPUs of a dnn host"
    if kept >= there:
        return limited(f"{found}: none would be left, so none is kept", f"reserve_cpus {there - 1} or less, or -1")
    return ok(found)


def channels(facts: ClusterFacts) -> RuleAnswer | None:
    if not facts.cluster.channels:
        return None
    lost = [f"{name}: {facts.cluster.channels[name]}" for name, count in facts.files.items() if count is None]
    if lost:
        return wrong(f"no such directory: {', '.join(lost)}", "correct the path; it counts from where tfhet is started")
    return ok(", ".join(facts.cluster.channels))


def files(facts: ClusterFacts) -> RuleAnswer | None:
    counted = {name: count for name, count in facts.files.items() if count is not None}
    if not counted or not facts.workers:
        return None
    name, least = min(counted.items(), key=lambda item: item[1])
    found = f"{least} files in {name}, {facts.workers} workers"
    if least < facts.workers:
        idle = f"{found}: {facts.workers - least} of them idle"
        return limited(
            idle, f"write the data into {FILES_FOR_EACH * facts.workers} files or more, or take fewer workers"
        )
    if least < FILES_FOR_EACH * facts.workers:
        return limited(found, f"{FILES_FOR_EACH * facts.workers} files keep all of them busy to the end of an epoch")
    return ok(found)


def _processes(facts: ClusterFacts, name: str, group: GroupFile) -> int:
    if name == facts.dnn_group:
        return group.ranks + facts.service.dnn_host_workers
    return facts.service.data_host_workers


CLUSTER = Subject(
    "cluster",
    (
        Rule("launcher arguments", arguments, "else the launchers refuse them, on every host"),
        Rule("mistyped arguments", mistyped, "what the launcher does not know goes to the script, without a word"),
        Rule("groups", groups, "each group delivers data or trains"),
        Rule("workers", workers, "a host without a part in the job ends it before it starts"),
        Rule("ports of a host", ports, "each process of a host listens at its own"),
        Rule("instance types", types, "sizes and prices come from the type"),
        Rule("ranks and GPUs", gpus, "ranks that share a GPU wait for each other; a GPU without a rank is paid for"),
        Rule("CPU quotas", cpu_quotas, "else hosts that are busy at once get less than their quota"),
        Rule("memory of the hosts", memory, "the kernel kills a process of the job that has no room"),
        Rule("reserve_cpus", reserve, "the CPUs of a dnn host that its workers keep off"),
        Rule("channels", channels, "the job does not see a directory that is not there"),
        Rule("files and workers", files, "a file goes to one worker"),
    ),
)
