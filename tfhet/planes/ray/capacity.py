"""CPUs and memory that a host has for Ray, within the limits of its container rather than those of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet.cluster import DATA, Role
from tfhet.planes.ray.settings import RaySettings
from tfhet.record import usable_cores
from tfhet.telemetry import cpu_quota, memory_limit
from tfhet.units import MB

STORE_SHARE, SMALL_STORE_SHARE = 0.3, 0.1
"""Fractions of a host's memory for its object store: of a host that offers CPUs, and of one that only reads."""
LEAST_STORE = 80 * MB
"""Ray refuses a smaller one than 75 MiB."""
SHM = Path("/dev/shm")
SHM_SHARE = 0.9
"""Fraction of the free shared memory that the store may take, at most."""


@dataclass(frozen=True)
class Capacity:
    """Resources that the node of one host offers to the cluster."""

    cpus: int
    gpus: int
    memory: int
    """Bytes for tasks that say what they need."""
    object_store: int
    """Bytes of its object store."""

    @classmethod
    def of(cls, settings: RaySettings, role: Role, has_data_hosts: bool, gpus: int) -> Capacity:
        """The capacity of this host, which has so many GPUs."""
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
    """Number of CPUs that a host of a role offers, this one if it has such a role."""
    given = settings.data_host_cpus if role == DATA else settings.dnn_host_cpus
    if given >= 0:
        return given
    if role != DATA and has_data_hosts:
        return 0
    return max(1, int(min(usable_cores(), cpu_quota() or usable_cores())))
