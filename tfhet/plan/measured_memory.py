"""The memory and disk that a run used: of its dnn hosts, its data hosts and its GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tfhet.plan.host import ClusterShape
from tfhet.plan.measured_run import MeasuredRun
from tfhet.plan.memory import LARGEST_VOLUME, MARGIN, SHM_PART, Amount, MemoryNeed
from tfhet.record import HostUsage
from tfhet.units import GIB

MARGIN_PCT = round(100 * (MARGIN - 1))


def memory_of(run: MeasuredRun, today: ClusterShape) -> MemoryNeed:
    """Returns the memory that a run used, with the margin. today: the cluster on which it trains."""
    if not run.run.watched:
        return _launched(run, today)
    found, ranks = run.run.watched, run.dnn_ranks or 1
    # A host that has trained has enough memory, even if nearly all of it was used.
    has = run.run.machine.get("memory_bytes") or None
    shared = found.get("memory_shared_peak_bytes") or 0
    peak = found.get("memory_pss_peak_bytes") or found.get("memory_rss_peak_bytes")
    if peak:  # a batch on its way between processes is in the memory of none
        peak += shared
    rank = Amount.measured(peak / ranks, has and has / ranks) if peak else None
    loaders = found.get("memory_loaders_peak_bytes")
    gpu = max(found.get("gpus_memory_peak_bytes") or [0])
    return MemoryNeed(
        rank,
        shared=Amount.stated(shared / ranks) if shared else None,
        gpu=Amount.measured(gpu, today.dnn.gpu_memory_bytes) if gpu else None,
        data_host=Amount.measured(loaders) if loaders else None,
    )


def _launched(run: MeasuredRun, today: ClusterShape) -> MemoryNeed:
    groups = run.run.cluster.values()
    of_data = [host for group in groups if group.get("role") == "data" for host in group.get("hosts") or ()]
    dnn, data = ([use for use in _usage(run) if (use[0] in of_data) is is_data] for is_data in (False, True))
    own = None if run.is_simulated else today
    ranks = run.dnn_ranks or today.dnn.ranks
    used = max((use.memory_bytes for _, use in dnn), default=0.0)
    shared = max((use.shared_bytes or 0.0 for _, use in dnn), default=0.0)
    of_data_host = max((use.memory_bytes for _, use in data), default=0.0)
    gpu = max((each for _, use in dnn for each in use.gpus_memory_bytes), default=0.0)
    servers = {group.get("role"): group.get("servers_per_host") or 0 for group in groups}
    of_dnn = own.dnn if own else None
    has, has_gpu = (of_dnn.memory_bytes, of_dnn.gpu_memory_bytes) if of_dnn else (None, None)
    has_data = own.data.memory_bytes if own and own.data else None
    disk, disk_of_data = (max((use.disk_bytes or 0.0 for _, use in each), default=0.0) for each in (dnn, data))
    machine = {} if run.is_simulated else run.run.machine
    shm, memory = machine.get("shm_bytes"), machine.get("memory_bytes")
    return MemoryNeed(
        rank=Amount.measured(used / ranks, has and has / ranks) if used else None,
        # The size of /dev/shm is known, or assumed to be small: no margin.
        shared=Amount.stated(shared / ranks) if shared else None,
        gpu=Amount.measured(gpu, has_gpu) if gpu else None,
        data_host=Amount.measured(of_data_host, has_data) if of_data_host else None,
        data_hosts=len(of_data),
        servers=max(1, *servers.values()) if servers else 1,
        # Files have the same size in each run: no margin.
        disk=Amount.stated(disk) if disk and own else None,
        data_host_disk=Amount.stated(disk_of_data) if disk_of_data and own else None,
        shm_part=shm / memory if shm and memory else SHM_PART,
        is_on_dnn=run.run.mode != "heterogeneous" or any(n for role, n in servers.items() if role != "data"),
    )


def _usage(run: MeasuredRun) -> Iterator[tuple[str, HostUsage]]:
    """Yields host and usage of each sample that counts one host, and without the file cache."""
    for use in run.timeline.usage:
        machine = use.machine
        is_one = machine is not None and not (machine.counted == "machine" and run.is_simulated)
        if machine is not None and is_one and not (machine.counted == "cgroup" and machine.shared_bytes is None):
            yield use.host, machine


def with_stated(
    need: MemoryNeed,
    today: ClusterShape,
    host_gb: float | None,
    gpu_gb: float | None,
    disk_gb: float | None = None,
    volume_gib: float | None = None,
) -> MemoryNeed:
    """Returns the memory and disk with what options state: memory of one dnn host of today's cluster and of one GPU,
    disk of each host, and the size of EBS volumes."""
    if host_gb is not None:
        need = replace(need, rank=Amount.stated(1e9 * host_gb / today.dnn.ranks), shared=None)
    if gpu_gb is not None:
        need = replace(need, gpu=Amount.stated(1e9 * gpu_gb))
    if disk_gb is not None:
        need = replace(need, disk=Amount.stated(1e9 * disk_gb), data_host_disk=None)
    return need if volume_gib is None else replace(need, volume_bytes=GIB * volume_gib)


def notes(need: MemoryNeed, today: ClusterShape, run: MeasuredRun | None, has_data: bool) -> list[str]:
    """Returns the memory that counts, how it is scaled, and the memory that is not known. has_data: whether there are
    clusters with data hosts."""
    found, known = list[str](), _known(need)
    if known:
        found.append(f"memory and disk, limits of every cluster: {'; '.join(known)}")
        margin = f"{MARGIN_PCT} % more memory than measured, or all that the host of the run has"
        found.append(f"assumed: a host needs {margin}")
        scaled = ["memory of a dnn host grows with its ranks"] if need.rank else []
        scaled += ["memory of a data host does not depend on its size"] if need.data_host else []
        if need.shared:
            by = "as measured" if need.shm_part != SHM_PART else "AWS publishes no size"
            scaled.append(f"/dev/shm holds {100 * need.shm_part:.0f} % of a host's memory ({by})")
        scaled += (
            ["data hosts need the disk of dnn hosts"] if need.disk and has_data and not need.data_host_disk else []
        )
        if scaled:
            found.append(f"assumed: {', '.join(scaled)}")
    if need.disk and need.volume_bytes == LARGEST_VOLUME:
        least = math.ceil(max(each.needed for each in (need.disk, need.data_host_disk) if each) / GIB)
        found.append(f"hosts without disks of their own need `limits: volume_gib` of {least} or more in the job file")
    missing = [
        *["dnn hosts (--memory_gb)"] * (need.rank is None),
        *["data hosts"] * (need.data_host is None and has_data),
        *["GPUs (--gpu_memory_gb)"] * (need.gpu is None and today.dnn.gpus > 0),
    ]
    if missing:
        why = f": {_reason(run)}" if run is not None and need.rank is None else ""
        found.append(f"memory of {', '.join(missing)} is not known, so no cluster is left out for it{why}")
    if need.disk is None:
        holds = "channels in File mode, stored conversions and caches"
        found.append(f"disk is not known, so no cluster is left out for it (--disk_gb: {holds})")
    return found


def _known(need: MemoryNeed) -> list[str]:
    amounts = {"each rank": need.rank, "each data host": need.data_host, "each GPU": need.gpu}
    amounts |= {"/dev/shm of each rank": need.shared, "disk of each dnn host": need.disk}
    amounts |= {"disk of each data host": need.data_host_disk}
    return [f"{what} {amount}" for what, amount in amounts.items() if amount]


def _reason(run: MeasuredRun) -> str:
    samples = [use.machine for use in run.timeline.usage if use.machine]
    if run.is_simulated and any(each.counted == "machine" for each in samples):
        return "the simulated hosts share the memory of this machine"
    if samples:
        return "the record counts the file cache too: run again with this version"
    return "the run recorded none: give its whole folder to --run, or run again"
