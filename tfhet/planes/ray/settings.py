"""The launcher's arguments that are Ray's own, and the order that readers get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from tfhet import schema
from tfhet.errors import UsageError

_COUNT = schema.whole(-1, 4096)


@dataclass(frozen=True)
class RaySettings:
    """Resources that each host offers to Ray, and ports. Every field is an argument `--NAME VALUE`."""

    data_host_cpus: Annotated[int, _COUNT] = -1
    """Number of CPUs that each data host offers to tasks; -1: all that it may use."""
    dnn_host_cpus: Annotated[int, _COUNT] = -1
    """The same of each dnn host; -1: all that it may use where the job has no data hosts, else none. Workers of Ray
    Train take one each, unless resources_per_worker says otherwise."""
    dnn_host_gpus: Annotated[int, _COUNT] = -1
    """Number of GPUs that each dnn host offers; -1: all that it may use. Other hosts offer all of theirs."""
    object_store_mb: int = 0
    """Size in MB of each host's object store, in shared memory; 0: 30 % of the memory of a host that offers CPUs, 10 %
    of that of another."""
    ray_port: int = 6379
    """Port of Ray's head on the leader's host. A host's other processes take the ports after it."""
    ray_dashboard: bool = False
    """Whether Ray's dashboard runs, for which `ray[default]` must be installed. It listens on the leader's loopback
    only, at a port that the log says."""

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
