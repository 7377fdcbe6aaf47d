"""Memory and disk that a job needs on its hosts and GPUs, and the hosts of a cluster that do not have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tfhet.plan.ceiling import Layout, Where
from tfhet.plan.host import ClusterShape, HostType
from tfhet.units import GIB

MARGIN = 1.15
"""Needed memory over the measured peak: samples of a second miss short peaks, an instance or GPU offers programs up to
7 % less than its published memory, and allocators differ between runs."""
SHM_PART = 0.5
"""Part of a host's memory that /dev/shm holds at most, if no run recorded it: the default of Linux for a tmpfs. AWS
does not publish the size in SageMaker's containers, and a request cannot set it."""
EBS = "EBS volume (limits: volume_gib)"
"""Kind of disk, with the field of the job file that sets its size."""
LARGEST_VOLUME = 16_384 * GIB
"""Size of the largest EBS volume: the maximum of VolumeSizeInGB."""


@dataclass(frozen=True)
class Amount:
    """Bytes of memory: in use by the record of a run, and needed. Equal if a person stated them."""

    used: float
    needed: float

    @classmethod
    def measured(cls, used: float, has: float | None = None) -> Amount:
        """Returns the amount with the margin. has: memory where it was measured, which is enough."""
        with_margin = MARGIN * used
        return cls(used, with_margin if has is None else max(used, min(with_margin, has)))

    @classmethod
    def stated(cls, needed: float) -> Amount:
        return cls(needed, needed)

    def times(self, factor: float) -> Amount:
        return Amount(factor * self.used, factor * self.needed)

    def plus(self, other: Amount) -> Amount:
        return Amount(self.used + other.used, self.needed + other.needed)

    def __str__(self) -> str:
        by = "" if self.needed == self.used else f" ({gib(self.used)} measured)"
        return f"{gib(self.needed)}{by}"


@dataclass(frozen=True)
class Misfit:
    """A kind of host that has too little memory or disk."""

    host: str
    kind: str
    """`memory`, `GPU memory`, `shared memory`, `instance store` or EBS."""
    has: float
    needs: Amount

    def __str__(self) -> str:
        return f"{self.host} has {gib(self.has)} of {self.kind}, and the job needs {self.needs} there"


@dataclass(frozen=True)
class MemoryNeed:
    """Memory and disk that a job needs. None if it is not known: then no host has too little of it."""

    rank: Amount | None = None
    """Host memory by rank: all processes of a dnn host over its ranks."""
    shared: Amount | None = None
    """Shared memory by rank, a part of `rank`."""
    gpu: Amount | None = None
    """GPU memory of one rank."""
    data_host: Amount | None = None
    """Host memory of one data host."""
    data_hosts: int = 0
    """Number of data hosts in the run: without data hosts, dnn hosts prepare what these had in memory."""
    servers: int = 1
    """Servers on each host that had some."""
    is_on_dnn: bool = True
    """Whether the dnn hosts of the run prepared data, so that `rank` includes the memory for it."""
    shm_part: float = SHM_PART
    """Part of a host's memory that /dev/shm holds at most."""
    disk: Amount | None = None
    """Disk of one dnn host, which holds channels in `File` mode, stored conversions and caches."""
    data_host_disk: Amount | None = None
    """Disk of one data host; None if it needs as much as a dnn host."""
    volume_bytes: float = LARGEST_VOLUME
    """Size of the EBS volume of each host without disks of its own."""

    def misfits(self, cluster: ClusterShape, layout: Layout) -> Iterator[Misfit]:
        """Yields each host of the cluster that has too little of a kind of memory, or of disk."""
        dnn, data = cluster.dnn, cluster.data
        if self.rank is not None:
            yield from _misfit(dnn, "memory", dnn.memory_bytes, self._dnn_host(self.rank, cluster, layout))
        if self.shared is not None:
            has = None if dnn.memory_bytes is None else self.shm_part * dnn.memory_bytes
            yield from _misfit(dnn, "shared memory", has, self.shared.times(dnn.ranks))
        if self.gpu is not None and dnn.gpus:
            yield from _misfit(dnn, "GPU memory", dnn.gpu_memory_bytes, self.gpu)
        if self.data_host is not None and data is not None:
            needs = self.data_host.times(max(1.0, layout.servers_per_host / self.servers))
            yield from _misfit(data, "memory", data.memory_bytes, needs)
        for host, needs_disk in ((dnn, self.disk), (data, self.data_host_disk or self.disk)):
            if needs_disk is not None and host is not None:
                own = host.instance_store_bytes
                kind, has = (EBS, self.volume_bytes) if own is None else ("instance store", own)
                yield from _misfit(host, kind, has, needs_disk)

    def fits(self, cluster: ClusterShape, layout: Layout) -> bool:
        return next(self.misfits(cluster, layout), None) is None

    def _dnn_host(self, rank: Amount, cluster: ClusterShape, layout: Layout) -> Amount:
        """Returns the memory of one dnn host, with the memory of data hosts whose work it takes over."""
        own, moved = rank.times(cluster.dnn.ranks), 0.0
        if self.data_host is None or layout.where is Where.DATA:
            return own
        if layout.where is Where.TRAINER:
            moved = 0.0 if self.is_on_dnn else self.data_hosts / cluster.dnn_hosts
        else:
            had = self.servers if self.is_on_dnn else 0
            moved = max(0, layout.servers_per_host - had) / self.servers
        return own.plus(self.data_host.times(moved))


UNKNOWN = MemoryNeed()


def gib(value: float) -> str:
    return f"{value / GIB:.4g} GiB"


def _misfit(host: HostType, kind: str, has: float | None, needs: Amount) -> Iterator[Misfit]:
    if has is not None and needs.needed > has:
        yield Misfit(host.name, kind, has, needs)
