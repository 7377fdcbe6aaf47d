"""The machines of a plan: host types, and clusters of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from tfhet.catalogue import Instance
from tfhet.errors import UsageError
from tfhet.record import Interval, View
from tfhet.units import GIB

AS_PROFILED = Interval.exact(1.0)
"""Speed of a vCPU that is as fast as one of the machine that was profiled."""
UsdPerHour = Callable[[str], float | None]
"""Instance type -> USD per hour on demand; None where no price is known."""
PAYLOAD = 0.96
"""Share of a network's bits that carries batches; the rest is headers of Ethernet, IP and TCP."""


@dataclass(frozen=True)
class HostType:
    """One type of host. Raises UsageError for no CPUs or no network."""

    name: str
    vcpus: float
    gpus: int = 0
    gpu_kind: str | None = None
    network_gbit_per_s: float | None = None
    """Sustained bandwidth in each direction; None where it is not known, so that it is never a limit."""
    speed: Interval = AS_PROFILED
    """Speed of a vCPU over that of the CPU that was profiled."""
    memory_bytes: float | None = None
    """Host memory as published; None if it is not known, so that it is never a limit."""
    gpu_memory_bytes: float | None = None
    """Memory of each GPU as published; None without GPUs, or if it is not known."""
    instance_store_bytes: float | None = None
    """Size of its own disks as published; None if its disk is an EBS volume."""

    def __post_init__(self) -> None:
        network = self.network_gbit_per_s
        if not (0 < self.vcpus < math.inf and self.speed.low > 0 and (network is None or network > 0)):
            raise UsageError(f"{self.name}: vCPUs, their speed and the network have to be more than 0")

    @classmethod
    def of(cls, instance: Instance, speed: Interval = AS_PROFILED) -> HostType:
        gpu_gib = instance.gpu_memory_gib
        return cls(
            instance.name,
            instance.vcpus,
            instance.gpus,
            instance.gpu_kind,
            instance.network_gbit_per_s,
            speed,
            GIB * instance.memory_gib,
            None if gpu_gib is None else GIB * gpu_gib,
            None if instance.instance_store_gb is None else 1e9 * instance.instance_store_gb,
        )

    @property
    def family(self) -> str:
        """`ml.c5` of `ml.c5.xlarge`."""
        return self.name.rpartition(".")[0]

    @property
    def ranks(self) -> int:
        """Number of training processes on a dnn host of this type: one for each accelerator, and at least one."""
        return max(1, self.gpus)

    def thread_speed(self, view: View) -> float:
        """Speed of one thread over one of the machine that was profiled; a host may have less than one CPU."""
        return min(1.0, self.vcpus) * self.speed.supply(view)

    def left_by(self, taken: float, view: View) -> float:
        """Returns the CPUs of the profiled kind that are left beside `taken` ones. Raises UsageError for none."""
        left = self.vcpus * self.speed.supply(view) - taken
        if not left > 0:
            raise UsageError(f"{self.name}: the launcher alone takes {taken:g} CPUs, and there are {self.vcpus:g}")
        return left

    @property
    def bytes_per_s(self) -> float:
        return math.inf if self.network_gbit_per_s is None else self.network_gbit_per_s * PAYLOAD * 1e9 / 8


@dataclass(frozen=True)
class ClusterShape:
    """Hosts that train, and hosts that prepare data, if any. Raises UsageError for a group with a type and no hosts."""

    dnn: HostType
    dnn_hosts: int = 1
    data: HostType | None = None
    data_hosts: int = 0

    def __post_init__(self) -> None:
        if self.dnn_hosts < 1 or self.data_hosts < 0 or (self.data is None) != (self.data_hosts == 0):
            hosts = f"{self.dnn_hosts} dnn hosts and {self.data_hosts} data hosts"
            raise UsageError(f"{hosts}: name the type of a group with hosts")

    @classmethod
    def parse(cls, text: str, type_of: Callable[[str], HostType]) -> ClusterShape:
        """Returns the cluster of `ml.p4d.24xlarge` or `2*ml.g5.xlarge+3*ml.c5.4xlarge`: dnn hosts, then data hosts.
        Raises UsageError for other texts, and whatever `type_of` raises."""
        groups = [re.fullmatch(r"\s*(?:(\d+)\s*\*)?\s*([\w.-]+)\s*", part) for part in text.split("+")]
        if not 1 <= len(groups) <= 2 or None in groups:
            raise UsageError(f"cluster {text!r}: write it like 1*ml.p4d.24xlarge+2*ml.c5.18xlarge")
        (dnn, dnn_hosts), *data = ((type_of(found[2]), int(found[1] or 1)) for found in groups if found)
        return cls(dnn, dnn_hosts, *data[0]) if data else cls(dnn, dnn_hosts)

    @property
    def hosts(self) -> int:
        return self.dnn_hosts + self.data_hosts

    @property
    def ranks(self) -> int:
        return self.dnn_hosts * self.dnn.ranks

    def usd_per_hour(self, price_of: UsdPerHour) -> float | None:
        dnn, data = price_of(self.dnn.name), price_of(self.data.name) if self.data else 0.0
        return None if dnn is None or data is None else self.dnn_hosts * dnn + self.data_hosts * data

    def __str__(self) -> str:
        """The text that `parse` reads."""
        data = f"+{self.data_hosts}*{self.data.name}" if self.data else ""
        return f"{self.dnn_hosts}*{self.dnn.name}{data}"
