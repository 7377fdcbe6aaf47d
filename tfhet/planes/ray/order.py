"""The order of the plane `ray`: what the leader says to every reader of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.cluster import is_address
from tfhet.errors import ClusterError, DataError
from tfhet.record import from_json_object


@dataclass(frozen=True)
class Order:
    address: str
    """IP:PORT of Ray's head, the same for all ranks."""
    nodes: Mapping[str, str]
    """IP address of the node of each host, by its name."""
    preparing: tuple[str, ...] = ()
    """Names of the hosts that offer CPUs."""

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Order:
        """The order that a message or a variable holds. Raises ClusterError, naming what is wrong."""
        try:
            found = from_json_object(cls, value, "order", strict=True)
        except DataError as error:
            raise ClusterError(f"ray: {error}") from None
        if not is_address(found.address):
            raise ClusterError(f"ray: order.address must be HOST:PORT, got {found.address!r}")
        return found
