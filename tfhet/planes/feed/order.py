"""The order of a feed: what the leader says to every reader of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.cluster import is_address
from tfhet.errors import ClusterError, DataError
from tfhet.record import from_json_object


@dataclass(frozen=True)
class Order:
    servers: tuple[str, ...]
    """HOST:PORT of every process that serves, the same for all ranks, in one order; none: ranks make their batches."""
    hosts: tuple[str, ...] = ()
    """Name of the host of each of them."""
    encrypted: bool = False
    """Whether batches are encrypted."""

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Order:
        """The order that a message or a variable holds. Raises ClusterError, naming what is wrong."""
        try:
            found = from_json_object(cls, value, "order", strict=True)
        except DataError as error:
            raise ClusterError(f"feed: {error}") from None
        if not all(map(is_address, found.servers)):
            raise ClusterError(f"feed: order.servers must be a list of HOST:PORT, got {list(found.servers)!r}")
        if len(found.hosts) != len(found.servers):
            raise ClusterError(f"feed: order.hosts names {len(found.hosts)} hosts for {len(found.servers)} servers")
        return found
