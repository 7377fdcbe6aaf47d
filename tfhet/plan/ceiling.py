"""The ceiling model: a step takes as long as the resource that needs longest for its share of it.

Numbers only, for one training step of all ranks: what it demands, what the cluster supplies, and the seconds that each
resource needs. Every ceiling falls or stays when a supply grows, and grows or stays when a demand does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from enum import Enum

from tfhet.errors import UsageError


class Resource(Enum):
    """What can be the longest; the value is what people read."""

    ACCELERATOR = "the accelerator"
    DNN_CPUS = "CPUs of the dnn hosts"
    DATA_CPUS = "CPUs of the data hosts"
    ALL_CPUS = "CPUs of all hosts"
    DATA_NETWORK = "network of the data hosts"
    DNN_NETWORK = "network of the dnn hosts"
    REQUESTS = "batches in flight"
    SOURCE = "reading the source"
    DISPATCHER = "the dispatcher"


class Where(Enum):
    """Where examples are prepared."""

    TRAINER = "in the training processes"
    DATA = "on the data hosts"
    EVERYWHERE = "on the data hosts and the spare CPUs of the dnn hosts"


@dataclass(frozen=True)
class Demand:
    """Of one step of all ranks. CPU seconds are those of the CPU that was profiled. Raises UsageError for what is
    negative or not finite."""

    accelerator_s: float
    """Forward, backward, allreduce and update, with data at hand."""
    pinned_cpu_s: float
    """What only dnn hosts can do: receiving, the stages behind the cut, the training processes' own."""
    movable_cpu_s: float = 0.0
    """What any host with workers can do: the stages before the cut, and sending."""
    wire_bytes: float = 0.0
    """From workers to ranks."""
    batch_s: float = 0.0
    """From asking a worker for a batch that is ready to having it."""
    source_bytes: float = 0.0
    """Read where examples are prepared."""
    dispatcher_s: float = 0.0
    """CPU of the dispatcher, which answers on one thread."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not 0 <= value < math.inf:
                raise UsageError(f"a step demands {item.name} = {value}: give a finite number from 0 up")


@dataclass(frozen=True)
class Supply:
    """Of a cluster. CPUs count in those that were profiled. Infinity: no limit is known. Raises UsageError for what is
    not positive (of data hosts: negative)."""

    dnn_cpus: float
    data_cpus: float = 0.0
    dnn_hosts: int = 1
    dnn_bytes_per_s: float = math.inf
    """Into all dnn hosts together."""
    data_bytes_per_s: float = math.inf
    """Out of all data hosts together."""
    batches_in_flight: float = math.inf
    """That one rank has asked for: one from each worker at a time."""
    source_bytes_per_s: float = math.inf
    """By all hosts that prepare."""
    accelerator_speed: float = 1.0
    """Over that of the accelerator whose step was measured."""
    dispatcher_speed: float = 1.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not (value > 0 or (item.name == "data_cpus" and value == 0)):
                raise UsageError(f"a cluster supplies {item.name} = {value}: give more than 0")


def ceilings(demand: Demand, supply: Supply, where: Where) -> dict[Resource, float]:
    """Seconds that each resource needs for the step; only those that have a part in it."""
    found = {
        Resource.ACCELERATOR: demand.accelerator_s / supply.accelerator_speed,
        Resource.SOURCE: demand.source_bytes / supply.source_bytes_per_s,
    }
    if where is Where.TRAINER:
        found[Resource.DNN_CPUS] = (demand.pinned_cpu_s + demand.movable_cpu_s) / supply.dnn_cpus
        return found
    if not supply.data_cpus and where is Where.DATA:
        raise UsageError("nobody prepares examples: no data hosts, and no workers on dnn hosts")
    found[Resource.DNN_CPUS] = demand.pinned_cpu_s / supply.dnn_cpus
    found[Resource.REQUESTS] = demand.batch_s / supply.batches_in_flight
    found[Resource.DISPATCHER] = demand.dispatcher_s / supply.dispatcher_speed
    if where is Where.DATA:
        found[Resource.DATA_CPUS] = demand.movable_cpu_s / supply.data_cpus
        found[Resource.DATA_NETWORK] = demand.wire_bytes / supply.data_bytes_per_s
        found[Resource.DNN_NETWORK] = demand.wire_bytes / supply.dnn_bytes_per_s
        return found
    found[Resource.ALL_CPUS] = (demand.pinned_cpu_s + demand.movable_cpu_s) / (supply.dnn_cpus + supply.data_cpus)
    if supply.data_cpus:
        found[Resource.DATA_NETWORK] = shared(demand, supply, 0.0, demand.wire_bytes / supply.data_bytes_per_s)
    # Ranks read from all workers alike: of what dnn hosts prepare, all but one part in dnn_hosts travels between them.
    inward_s, hosts = demand.wire_bytes / supply.dnn_bytes_per_s, supply.dnn_hosts
    found[Resource.DNN_NETWORK] = shared(demand, supply, inward_s * (hosts - 1) / hosts, inward_s / hosts)
    return found


def shared(demand: Demand, supply: Supply, fixed_s: float, data_s: float) -> float:
    """The ceiling of a network where dnn hosts prepare too, and take over what it cannot carry.

    The data hosts prepare a part f of the step, from 0 to 1. The network needs fixed_s + f data_s, the CPUs of the dnn
    hosts pinned + (1 - f) movable over what they are: the more f, the longer the one and the shorter the other. Workers
    give what they have and ranks take what comes, so f settles where both take as long.
    """
    pinned, movable, cpus = demand.pinned_cpu_s, demand.movable_cpu_s, supply.dnn_cpus
    if not data_s or not movable:
        return fixed_s
    f = ((pinned + movable) / cpus - fixed_s) / (data_s + movable / cpus)
    return fixed_s + min(1.0, max(0.0, f)) * data_s


def longest(found: dict[Resource, float]) -> list[Resource]:
    """The resources by the seconds that they need, the binding one first."""
    return sorted(found, key=lambda resource: -found[resource])


def relaxed(supply: Supply, resource: Resource, factor: float) -> Supply:
    """The cluster with `factor` times as much of one resource."""
    names = {
        Resource.ACCELERATOR: ("accelerator_speed",),
        Resource.DNN_CPUS: ("dnn_cpus",),
        Resource.DATA_CPUS: ("data_cpus",),
        Resource.ALL_CPUS: ("dnn_cpus", "data_cpus"),
        Resource.DATA_NETWORK: ("data_bytes_per_s",),
        Resource.DNN_NETWORK: ("dnn_bytes_per_s",),
        Resource.REQUESTS: ("batches_in_flight",),
        Resource.SOURCE: ("source_bytes_per_s",),
        Resource.DISPATCHER: ("dispatcher_speed",),
    }[resource]
    more = {name: factor * getattr(supply, name) for name in names}
    return replace(supply, **more)
