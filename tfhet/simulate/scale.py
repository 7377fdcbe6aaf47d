"""The share of the machine for each host: its instance type times a scale, or the limits in the cluster file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import psutil

from tfhet.catalogue import Instance, default
from tfhet.container import LEAST_CPUS, Limits
from tfhet.errors import UsageError, shown
from tfhet.simulate.cluster_file import ClusterFile, GroupFile
from tfhet.units import GIB, MIB

FIT = "fit"
Scale = float | str
"""A number, or FIT: the largest, up to 1, at which the hosts together have no more CPUs than the machine."""
MOST_SCALE = 100.0
BASE_BYTES, PROCESS_BYTES = GIB // 2, GIB
"""Least memory of a host: for its launchers, and for each process with TensorFlow, which needs 450 MiB when idle."""


MANY_HOSTS = 50
"""Number of hosts from which a simulation reports their cost."""
_HOST_BYTES, _HOST_CPU_S = 200 * MIB, 2.0
"""Memory, and CPU time from start to end, of a host whose script and data cost nothing."""


def cost_of(hosts: int, cpus: int, memory_bytes: int, ready_timeout_s: float) -> str | None:
    """Describes the memory and the time that many hosts need on a machine; None for few hosts."""
    if hosts < MANY_HOSTS:
        return None
    starts_s = hosts * _HOST_CPU_S / cpus
    note = (
        f"{hosts} hosts: about {_HOST_BYTES / MIB:.0f} MiB and {_HOST_CPU_S:g} s of CPU time per host without its data "
        f"and script; together {hosts * _HOST_BYTES / GIB:.1f} of {memory_bytes / GIB:.1f} GiB, and {starts_s:.0f} s "
        f"on {cpus} CPUs"
    )
    if starts_s > ready_timeout_s / 2:
        note += f"; give the launcher --ready_timeout_s {2 * starts_s:.0f}"
    return note


def parse_scale(text: Scale) -> Scale:
    """Parses a scale from a command line. Raises UsageError."""
    if text == FIT:
        return FIT
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not 0 < scale <= MOST_SCALE:
        raise UsageError(f"cpu_scale is a number above 0, up to {MOST_SCALE:g}, or the word {FIT}; not {shown(text)}")
    return scale


def limits_of(
    cluster: ClusterFile,
    hosts: Mapping[str, str],
    *,
    cpu_scale: Scale | None = None,
    cpus: Sequence[int] | None = None,
    memory_bytes: int | None = None,
) -> tuple[dict[str, Limits], list[str]]:
    """Computes the limits of each host, and notes for the user about limits that differ from the instance types.

    Args:
        hosts: Name of the group of each host.
        cpu_scale: Scale of the instance types; None: only the limits in the cluster file.
        cpus: CPUs of the machine to use, by default those that this process may use; `memory_bytes` likewise.

    Raises UsageError for an unknown instance type, a wrong scale, or no CPUs left for the hosts without `cpus`.
    """
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cpus = sorted(usable) if cpus is None else cpus
    memory_bytes = psutil.virtual_memory().total if memory_bytes is None else memory_bytes
    groups = {host: cluster.groups[name] for host, name in hosts.items()}
    notes: list[str] = []
    scale = None if cpu_scale is None else parse_scale(cpu_scale)
    if isinstance(scale, str):
        scale = _fitting(hosts, groups, len(cpus))
        notes.append(f"cpu_scale {scale:.3g}: the largest at which the hosts fit into {len(cpus)} CPUs")
    limits = {host: _of_group(hosts[host], group, scale) for host, group in groups.items()}
    limits = _memory_fitted(limits, groups, memory_bytes, notes)
    wanted = sum(limit.cpus or 0.0 for limit in limits.values())
    if wanted > len(cpus) * 1.001:
        notes.append(
            f"the hosts may use {wanted:.3g} CPUs together and the machine has {len(cpus)}: busy at once, they get less"
            " than their quota"
        )
    return _placed(limits, cpus, notes), notes


def _row(name: str, group: GroupFile) -> Instance:
    try:
        return default().instance(group.instance_type)
    except UsageError as error:
        raise UsageError(
            f"group {name}: {error}; or give the group cpus, memory_mib and mbit_per_s, or no cpu_scale"
        ) from None


def _fitting(hosts: Mapping[str, str], groups: Mapping[str, GroupFile], cpus: int) -> float:
    given = sum(group.cpus for group in groups.values() if group.cpus is not None)
    scaled = sum(_row(hosts[host], group).vcpus for host, group in groups.items() if group.cpus is None)
    if not scaled:
        return 1.0
    if given >= cpus:
        raise UsageError(
            f"cpu_scale {FIT}: groups with `cpus` take {given:g} CPUs of {cpus}, and nothing is left for the others:"
            " give those less, or a number for cpu_scale"
        )
    return min(1.0, (cpus - given) / scaled)


def _of_group(name: str, group: GroupFile, scale: float | None) -> Limits:
    limits = Limits(
        cpus=group.cpus,
        memory_bytes=None if group.memory_mib is None else round(group.memory_mib * MIB),
        bits_per_s=None if group.mbit_per_s is None else group.mbit_per_s * 1e6,
        latency_s=None if group.latency_ms is None else group.latency_ms / 1e3,
        loss_share=None if group.loss_pct is None else group.loss_pct / 100,
    )
    if scale is None or None not in (limits.cpus, limits.memory_bytes, limits.bits_per_s):
        return limits
    row = _row(name, group)
    memory_bytes = max(_least_bytes(group), round(row.memory_gib * GIB * scale))
    bits_per_s = None if row.network_gbit_per_s is None else row.network_gbit_per_s * 1e9 * scale
    return replace(
        limits,
        cpus=max(LEAST_CPUS, row.vcpus * scale) if limits.cpus is None else limits.cpus,
        memory_bytes=memory_bytes if limits.memory_bytes is None else limits.memory_bytes,
        bits_per_s=bits_per_s if limits.bits_per_s is None else limits.bits_per_s,
    )


def _least_bytes(group: GroupFile) -> int:
    return BASE_BYTES + PROCESS_BYTES * group.ranks


def _memory_fitted(
    limits: dict[str, Limits], groups: Mapping[str, GroupFile], memory_bytes: int, notes: list[str]
) -> dict[str, Limits]:
    """Scales the memory that comes from instance types down, if all hosts together would have more than the machine."""
    wanted = {host: limit.memory_bytes for host, limit in limits.items() if limit.memory_bytes is not None}
    if sum(wanted.values()) <= memory_bytes:
        return limits
    scaled = {host: size for host, size in wanted.items() if groups[host].memory_mib is None}
    given = sum(wanted.values()) - sum(scaled.values())
    share = max(0.0, memory_bytes - given) / max(1, sum(scaled.values()))
    least = {host: min(size, max(_least_bytes(groups[host]), int(size * share))) for host, size in scaled.items()}
    if least:
        notes.append(f"memory: scaled by {min(1.0, share):.3g} more, to fit into {memory_bytes / GIB:.1f} GiB")
    if given + sum(least.values()) > memory_bytes:
        notes.append(
            f"memory: the hosts may use {(given + sum(least.values())) / GIB:.1f} GiB together and the machine has"
            f" {memory_bytes / GIB:.1f}: the kernel may kill one of them that is within its limit"
        )
    return {host: replace(limit, memory_bytes=least.get(host, limit.memory_bytes)) for host, limit in limits.items()}


def _placed(limits: Mapping[str, Limits], cpus: Sequence[int], notes: list[str]) -> dict[str, Limits]:
    """Assigns each host the fewest CPUs that its quota needs, without overloading a CPU. Like on a real host,
    TensorFlow sees that number of CPUs, and starts as many threads."""
    load = dict.fromkeys(cpus, 0.0)
    placed = dict(limits)
    for host, limit in sorted(limits.items(), key=lambda item: -(item[1].cpus or 0.0)):
        if limit.cpus is None:
            continue
        count = math.ceil(limit.cpus - 1e-9)
        chosen = sorted(load, key=lambda cpu: (load[cpu], cpu))[:count]
        for cpu in chosen:
            load[cpu] += limit.cpus / count
        if count > len(cpus) or any(load[cpu] > 1.0 + 1e-9 for cpu in chosen):
            notes.append("CPU sets: the hosts' quotas cannot be dealt out to single CPUs, so each may use all of them")
            return {name: replace(each, cpu_set=None) for name, each in limits.items()}
        placed[host] = replace(limit, cpu_set=tuple(sorted(chosen)))
    return placed
