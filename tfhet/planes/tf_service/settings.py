"""The launcher's arguments that are tf.data service's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.errors import UsageError

MOST_WORKERS = 256


@dataclass(frozen=True)
class ServiceSettings:
    """Numbers of workers, and ports. Every field is an argument `--NAME VALUE`."""

    data_host_workers: int = 1
    """Number of tf.data service workers on each data host."""
    dnn_host_workers: int = 0
    """Number of tf.data service workers on each dnn host."""
    reserve_cpus: int = -1
    """Number of CPUs of a dnn host that its workers leave to the training; 0: none; -1: as many as it is measured to
    use."""
    data_plane_encryption: bool = False
    """Whether batches are encrypted on their way (TLS 1.3). Who may take part is checked in any case, and control
    connections are always encrypted."""
    dispatcher_port: int = 6000
    """Port of the dispatcher, on the leader's host."""
    worker_port: int = 6001
    """Port of a host's first worker; the next workers take the next ports."""

    @classmethod
    def of(cls, planes: Mapping[str, Any]) -> ServiceSettings:
        """The settings of this plane among those of several, by name; without workers where it is not among them."""
        return planes.get("tf_service") or cls(data_host_workers=0)

    def __post_init__(self) -> None:
        for name in ("data_host_workers", "dnn_host_workers"):
            if not 0 <= getattr(self, name) <= MOST_WORKERS:
                raise UsageError(f"--{name} must be between 0 and {MOST_WORKERS}, not {getattr(self, name)}")
        if self.reserve_cpus < -1:
            raise UsageError(f"--reserve_cpus {self.reserve_cpus}: give a number of CPUs, or -1 to have it measured")
