"""The ceiling model: a step takes as long as the resource that needs longest for its share of it.

All numbers are for one training step of all ranks: its demand, the supply of the cluster, and the seconds that each
resource needs. No ceiling grows when a supply grows, and none falls when a demand grows. *Servers* are the processes of
a data plane that prepare batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from tfhet.errors import UsageError


class Resource(Enum):
    """A resource that can limit the step. The value is its name in tables."""

    ACCELERATOR = "the accelerator"
    DNN_CPUS = "CPUs of the dnn hosts"
    DATA_CPUS = "CPUs of the data hosts"
    ALL_CPUS = "CPUs of all hosts"
    DATA_NETWORK = "network of the data hosts"
    DNN_NETWORK = "network of the dnn hosts"
    REQUESTS = "batches in flight"
    SOURCE = "reading the source"


class Where(Enum):
    TRAINER = "in the training processes"
    DATA = "on the data hosts"
    EVERYWHERE = "on the data hosts and the spare CPUs of the dnn hosts"


@dataclass(frozen=True)
class Layout:
    """The decisions that cost no money."""

    where: Where = Where.TRAINER
    cut: int = -1
    """Index of the cut of the pipeline; the dtype that travels follows from it."""
    servers_per_host: int = 1


@dataclass(frozen=True)
class Demand:
    """Demand of one step of all ranks, finite numbers from 0. CPU seconds are those of the CPU that was profiled."""

    accelerator_s: float
    """Seconds of forward, backward, allreduce and update, with data at hand."""
    pinned_cpu_s: float
    """CPU seconds that only dnn hosts can spend: receiving, the stages after the cut, the training processes' own."""
    movable_cpu_s: float = 0.0
    """CPU seconds that any host with servers can spend: the stages before the cut, and sending."""
    wire_bytes: float = 0.0
    batch_s: float = 0.0
    """Seconds from the request for a batch that is ready to its arrival."""
    source_bytes: float = 0.0
    """Bytes that are read where examples are prepared."""


@dataclass(frozen=True)
class Supply:
    """Supply of a cluster, numbers above 0; only `data_cpus` may be 0. Infinity means that no limit is known. CPUs are
    counted in those that were profiled."""

    dnn_cpus: float
    data_cpus: float = 0.0
    dnn_hosts: int = 1
    dnn_bytes_per_s: float = math.inf
    """Bandwidth into all dnn hosts together."""
    data_bytes_per_s: float = math.inf
    """Bandwidth out of all data hosts together."""
    batches_in_flight: float = math.inf
    """Number of batches that one rank has asked for: one from each server at a time."""
    source_bytes_per_s: float = math.inf
    """Reading rate of all hosts that prepare examples together."""


def ceilings(demand: Demand, supply: Supply, where: Where) -> dict[Resource, float]:
    """Returns the seconds that each resource needs for the step, for those resources that the step uses. Raises
    UsageError where only data hosts are to prepare examples and there are none."""
    source_s = demand.source_bytes / supply.source_bytes_per_s
    found = {Resource.ACCELERATOR: demand.accelerator_s, Resource.SOURCE: source_s}
    if where is Where.TRAINER:
        found[Resource.DNN_CPUS] = (demand.pinned_cpu_s + demand.movable_cpu_s) / supply.dnn_cpus
        return found
    if not supply.data_cpus and where is Where.DATA:
        raise UsageError("no host prepares examples: there are no data hosts, and dnn hosts have no servers")
    found[Resource.DNN_CPUS] = demand.pinned_cpu_s / supply.dnn_cpus
    found[Resource.REQUESTS] = demand.batch_s / supply.batches_in_flight
    if where is Where.DATA:
        found[Resource.DATA_CPUS] = demand.movable_cpu_s / supply.data_cpus
        found[Resource.DATA_NETWORK] = demand.wire_bytes / supply.data_bytes_per_s
        found[Resource.DNN_NETWORK] = demand.wire_bytes / supply.dnn_bytes_per_s
        return found
    found[Resource.ALL_CPUS] = (demand.pinned_cpu_s + demand.movable_cpu_s) / (supply.dnn_cpus + supply.data_cpus)
    if supply.data_cpus:
        found[Resource.DATA_NETWORK] = shared(demand, supply, 0.0, demand.wire_bytes / supply.data_bytes_per_s)
    # Ranks read from all servers alike: of what dnn hosts prepare, all but one part in dnn_hosts travels between them.
    inward_s, hosts = demand.wire_bytes / supply.dnn_bytes_per_s, supply.dnn_hosts
    found[Resource.DNN_NETWORK] = shared(demand, supply, inward_s * (hosts - 1) / hosts, inward_s / hosts)
    return found


def shared(demand: Demand, supply: Supply, fixed_s: float, data_s: float) -> float:
    """Returns the ceiling of a network where dnn hosts prepare what the network cannot carry. The data hosts prepare a
    part f of the step, from 0 to 1. The network needs fixed_s + f data_s seconds, the CPUs of the dnn hosts (pinned +
    (1 - f) movable) / their number. The first grows with f and the second falls. Servers give what they have and ranks
    take what comes, so f settles where both take equally long."""
    pinned, movable, cpus = demand.pinned_cpu_s, demand.movable_cpu_s, supply.dnn_cpus
    if not data_s or not movable:
        return fixed_s
    f = ((pinned + movable) / cpus - fixed_s) / (data_s + movable / cpus)
    return fixed_s + min(1.0, max(0.0, f)) * data_s
