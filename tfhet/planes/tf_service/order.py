"""The order of tf.data service: what the leader says to every reader of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tfhet.errors import ClusterError, shown


@dataclass(frozen=True)
class Order:
    """Address of the dispatcher, and abilities of its workers."""

    dispatcher: str
    """`host:port` of the dispatcher."""
    workers: int = 0
    """Number of workers in the whole job."""
    data_hosts: tuple[str, ...] = ()
    """Names of the hosts that deliver data and do not train."""
    native: tuple[str, ...] | None = None
    """Compiled ops that all workers have, so that a graph may hold them; None: every process checks for itself."""

    def to_json(self) -> dict[str, Any]:
        """JSON values that `parse` reads."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Order:
        """The order that a message or a variable holds. Raises ClusterError, naming the field that is wrong."""
        dispatcher, workers = value.get("dispatcher"), value.get("workers", 0)
        data_hosts, native = value.get("data_hosts", ()), value.get("native")
        for name, field, wanted, is_right in (
            ("dispatcher", dispatcher, "host:port", _is_address(dispatcher)),
            ("workers", workers, "a number >= 0", type(workers) is int and workers >= 0),
            ("data_hosts", data_hosts, "host names", _are_names(data_hosts)),
            ("native", native, "names of compiled ops", native is None or _are_names(native)),
        ):
            if not is_right:
                raise ClusterError(f"tf.data service: {name} must be {wanted}, got {shown(field)}")
        return cls(str(dispatcher), workers, tuple(data_hosts), None if native is None else tuple(native))


def _is_address(value: object) -> bool:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return bool(host) and port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535


def _are_names(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
