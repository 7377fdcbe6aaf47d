"""The order of tf.data service: what the leader says to every reader of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tfhet.errors import ClusterError, shown


@dataclass(frozen=True)
class Order:
    """Where the dispatcher is, and what its workers can do."""

    dispatcher: str
    """`host:port` of the dispatcher."""
    workers: int = 0
    """Number of workers in the whole job."""
    data_hosts: tuple[str, ...] = ()
    """Names of the hosts that deliver data and do not train."""
    native: tuple[str, ...] | None = None
    """The compiled ops that all workers have, and so a graph may hold; None: every process asks for itself."""

    def to_json(self) -> dict[str, Any]:
        """What `parse` reads."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Order:
        """The order that a message or a variable holds. Raises ClusterError, naming the field that is wrong."""
        dispatcher, workers = value.get("dispatcher"), value.get("workers", 0)
        data_hosts, native = value.get("data_hosts", ()), value.get("native")
        if not isinstance(dispatcher, str) or not _is_address(dispatcher):
            raise ClusterError(f"tf.data service: dispatcher must be host:port, got {shown(dispatcher)}")
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 0:
            raise ClusterError(f"tf.data service: workers must be a number >= 0, got {shown(workers)}")
        if not _are_names(data_hosts):
            raise ClusterError(f"tf.data service: data_hosts must be host names, got {shown(data_hosts)}")
        if native is not None and not _are_names(native):
            raise ClusterError(f"tf.data service: native must be names of compiled ops, got {shown(native)}")
        return cls(dispatcher, workers, tuple(data_hosts), None if native is None else tuple(native))


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535


def _are_names(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
