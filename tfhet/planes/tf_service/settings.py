"""The launcher's arguments for tf.data service, and the order for readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from tfhet import schema

SERVER = "tfhet.planes.tf_service.server"
"""Module of every process."""
MOST_WORKERS = 256
DISPATCHER, WORKERS = "dispatcher", "workers"
"""Names of the ports."""


@dataclass(frozen=True)
class ServiceSettings:
    """Numbers of workers, and ports. Every field is an argument `--NAME VALUE`."""

    data_host_workers: Annotated[int, schema.whole(0, MOST_WORKERS)] = 1
    """Number of tf.data service workers on each data host."""
    dnn_host_workers: Annotated[int, schema.whole(0, MOST_WORKERS)] = 0
    """Number of tf.data service workers on each dnn host."""
    reserve_cpus: Annotated[int, schema.least(-1)] = -1
    """Number of CPUs of a dnn host that its workers leave to the training; 0: none; -1: as many as it uses."""
    data_plane_encryption: bool = False
    """Whether batches are encrypted on their way (TLS 1.3). Who may take part is checked in any case, and control
    connections are always encrypted."""
    dispatcher_port: int = 6000
    """Port of the dispatcher, on the leader's host."""
    worker_port: int = 6001
    """Port of a host's first worker; the next workers take the next ports."""

    @classmethod
    def of(cls, planes: Mapping[str, Any]) -> ServiceSettings:
        """The settings of this plane in the settings by plane; without workers if it has none."""
        return planes.get("tf_service") or cls(data_host_workers=0)


@dataclass(frozen=True)
class Order(schema.Order):
    """The leader's message to every reader of the job."""

    dispatcher: schema.Address
    workers: schema.Count = 0
    """Number of workers in the whole job."""
    data_hosts: tuple[str, ...] = ()
    """Names of the hosts that deliver data and do not train."""
    native: tuple[str, ...] | None = None
    """Compiled ops that all workers have, so that a graph may hold them; None: every process checks for itself."""
    encrypted: bool = False
    """Whether batches are encrypted."""
