"""The launcher's arguments for a feed, and the order for readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tfhet import schema

SERVER = "tfhet.planes.feed.server"
"""Module of every process."""
MOST_PROCESSES = 512
PORTS = "feed"
"""Name of the ports."""


@dataclass(frozen=True)
class FeedSettings:
    """Numbers of processes, and ports. Every field is an argument `--NAME VALUE`."""

    data_host_processes: Annotated[int, schema.whole(0, MOST_PROCESSES)] = 0
    """Number of processes on each data host that run the user's loader; 0: one for each CPU."""
    dnn_host_processes: Annotated[int, schema.whole(-1, MOST_PROCESSES)] = 0
    """The same on each dnn host, where they use the CPUs that the training leaves idle; -1: one for each CPU; 0: none.
    Without any process the ranks make their batches themselves."""
    data_plane_encryption: bool = False
    """Whether batches are encrypted in transit (AES-256-GCM). Connections are authenticated in any case."""
    feed_port: int = 6000
    """Port of a host's first process; the next ones take the next ports."""


@dataclass(frozen=True)
class Order(schema.Order):
    """The leader's message to every reader of the job."""

    servers: tuple[schema.Address, ...]
    """HOST:PORT of every process, in the same order for all ranks; none: ranks make their batches."""
    hosts: tuple[str, ...] = ()
    """Name of each server's host."""
    encrypted: bool = False
    """Whether batches are encrypted."""

    def __post_init__(self) -> None:
        if len(self.hosts) != len(self.servers):
            raise ValueError(f"hosts names {len(self.hosts)} hosts for {len(self.servers)} servers")
