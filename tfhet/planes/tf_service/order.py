"""The order of tf.data service: what the leader says to every reader of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from tfhet.cluster import is_address
from tfhet.errors import ClusterError, DataError
from tfhet.messages import Count
from tfhet.record import Check, from_json_object


@dataclass(frozen=True)
class Order:
    dispatcher: Annotated[str, Check("host:port", is_address)]
    workers: Count = 0
    """Number of workers in the whole job."""
    data_hosts: tuple[str, ...] = ()
    """Names of the hosts that deliver data and do not train."""
    native: tuple[str, ...] | None = None
    """Compiled ops that all workers have, so that a graph may hold them; None: every process checks for itself."""

    encrypted: bool = False
    """Whether batches are encrypted."""

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Order:
        """The order that a message or a variable holds. Raises ClusterError, naming the field that is wrong."""
        try:
            return from_json_object(cls, value, "order", strict=True)
        except DataError as error:
            raise ClusterError(f"tf.data service: {error}") from None
