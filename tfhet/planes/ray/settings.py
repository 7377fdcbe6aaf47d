"""The launcher's arguments for Ray, the resources of a host that follow from them, and the order for readers.

Resources are within the limits of a host's container, not of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tfhet import schema
from tfhet.cluster import DATA, Role
from tfhet.errors import UsageError
from tfhet.record import usable_cores
from tfhet.units import MB

NODE = "tfhet.planes.ray.node"
"""Module of every node's process."""
HEAD, NODES = "ray_head", "ray"
"""Names of the ports."""
FIXED = (
    "node-manager-port",
    "object-manager-port",
    "runtime-env-agent-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "metrics-export-port",
)
"""Ray's names of the ports of each host, in the order of the host's ports."""
AGENT = FIXED.index("dashboard-agent-grpc-port")  # the metrics agent
DASHBOARD = len(FIXED)  # index of its port
WORKERS = DASHBOARD + 1
"""Index of the first port for workers and drivers, which use all further ports."""
WORKER_PORTS = 32  # for drivers and workers without a CPU
WORKERS_OF_A_CPU = 4
"""Number of ports for workers for each CPU; some workers are idle, or use a fraction of a CPU."""
STORE_SHARE, SMALL_STORE_SHARE = 0.3, 0.1
"""Fraction of a host's memory for its object store, if it offers CPUs and if it only reads."""
LEAST_STORE = 80 * MB
"""Ray's minimum is 75 MiB."""
SHM = Path("/dev/shm")
SHM_SHARE = 0.9
"""Maximum fraction of the free shared memory for the store."""
_COUNT = schema.whole(-1, 4096)


@dataclass(frozen=True)
class RaySettings:
    """Resources that each host offers to Ray, and ports. Every field is an argument `--NAME VALUE`."""

    data_host_cpus: Annotated[int, _COUNT] = -1
    """Number of CPUs that each data host offers to tasks; -1: all usable CPUs."""
    dnn_host_cpus: Annotated[int, _COUNT] = -1
    """The same of each dnn host; -1: all usable CPUs if the job has no data hosts, else none. Workers of Ray Train use
    one each, unless resources_per_worker is set."""
    dnn_host_gpus: Annotated[int, _COUNT] = -1
    """Number of GPUs that each dnn host offers; -1: all usable GPUs. Other hosts offer all of theirs."""
    object_store_mb: int = 0
    """MB of each host's object store, in shared memory; 0: 30 % of the memory, 10 % on hosts that offer no CPUs."""
    data_plane_encryption: bool = False
    """Whether calls and objects are encrypted in transit (TLS). Every call needs the job's token in any case."""
    ray_port: int = 6379
    """Port of Ray's head on the leader's host. A host's other processes take the ports after it."""
    ray_dashboard: bool = False
    """Whether to run Ray's dashboard (`ray[default]`), on the leader's loopback at a port that the log names."""

    def __post_init__(self) -> None:
        if not (self.object_store_mb == 0 or self.object_store_mb >= 80):
            raise UsageError(f"--object_store_mb must be at least 80, or 0, not {self.object_store_mb}")


@dataclass(frozen=True)
class Order(schema.Order):
    """The leader's message to every reader of the job."""

    address: schema.Address
    """IP:PORT of Ray's head, the same for all ranks."""
    nodes: Mapping[str, str]
    """IP address of the node of each host, by its name."""
    preparing: tuple[str, ...] = ()
    """Names of the hosts that offer CPUs."""


@dataclass(frozen=True)
class Capacity:
    """Resources that the node of one host offers to the cluster."""

    cpus: int
    gpus: int
    memory: int
    """Bytes for tasks that request memory."""
    object_store: int
    """Bytes of its object store."""

    @classmethod
    def of(cls, settings: RaySettings, role: Role, has_data_hosts: bool, gpus: int) -> Capacity:
        """Returns the capacity of this host. gpus: number of its GPUs."""
        import psutil

        from tfhet.telemetry import memory_limit

        offered = cpus_offered(settings, role, has_data_hosts)
        whole = min(psutil.virtual_memory().total, memory_limit() or 1 << 62)
        store = settings.object_store_mb * MB or int(whole * (STORE_SHARE if offered else SMALL_STORE_SHARE))
        if SHM.is_dir():
            store = min(store, int(psutil.disk_usage(str(SHM)).free * SHM_SHARE))
        store = max(store, LEAST_STORE)
        if role != DATA and settings.dnn_host_gpus >= 0:
            gpus = settings.dnn_host_gpus
        return cls(offered, gpus, max(0, int(whole * 0.9) - store), store)


def cpus_offered(settings: RaySettings, role: Role, has_data_hosts: bool) -> int:
    """Returns the number of CPUs that a host of a role offers, if this host has it."""
    cpus = settings.data_host_cpus if role == DATA else settings.dnn_host_cpus
    if cpus >= 0:
        return cpus
    if role != DATA and has_data_hosts:
        return 0

    from tfhet.telemetry import cpu_quota

    return max(1, int(min(usable_cores(), cpu_quota() or usable_cores())))
