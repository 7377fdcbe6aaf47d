"""Costs of a data plane: what moving batches takes of servers and of readers.

A *server* is a process that prepares batches, and a *reader* a rank that receives them. Some planes have no servers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfhet.errors import UsageError
from tfhet.record import Interval


@dataclass(frozen=True)
class WireCost:
    """Cost of batches between one server and one reader. A GB is 1e9 bytes of tensors, before any compression."""

    reader_s_per_gb: Interval
    server_s_per_gb: Interval
    """CPU seconds of the server. The cost of preparing the batches is not included."""
    gb_per_s: Interval
    """Rate of batches that follow each other, with one in flight."""
    wire_ratio: Interval = Interval.exact(1.0)
    """Bytes on the network over bytes of tensors: 1 without compression."""

    @classmethod
    def one_in_flight(cls, reader: Interval, server: Interval) -> WireCost:
        """Returns the cost for CPU seconds per GB where the server writes first and the reader reads after that."""
        rate = Interval(*(1 / (getattr(reader, end) + getattr(server, end)) for end in ("value", "high", "low")))
        return cls(reader, server, rate)


def _no_wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
    raise UsageError("this data plane moves no batches between hosts")


@dataclass(frozen=True)
class PlaneCosts:
    """All that a plan needs to know of a data plane; by default one that moves no batches."""

    wire: Callable[[str, int, str], WireCost] = _no_wire
    """(dtype, bytes of a batch, compression) -> the cost. Raises UsageError where it is not known."""
    compressions: tuple[str, ...] = ("none",)
    """Names of the compressions that a plan may choose from; `none` is no compression."""
    source: str = "nothing is moved"
    """Source of the costs: the name of a record, or their assumptions."""
    request_s: Interval = Interval.exact(0.0)
    """Seconds for the request for a batch and its answer between two hosts, without the batch itself."""
    most_servers_per_host: int = 0
    """Maximum number of servers on a host that a plan tries; 0 where the plane has none."""
    leader_cpus: Interval = Interval.exact(0.0)
    """CPUs that its processes take all the time on the leader's host, whatever is moved."""
    host_cpus: Interval = Interval.exact(0.0)
    """The same of every other host."""
    is_needed: bool = False
    """Whether batches go through it where there are no data hosts, too."""
    uses_all_hosts: bool = True
    """Whether, beside data hosts, all CPUs that hosts with ranks have to spare can prepare too."""
