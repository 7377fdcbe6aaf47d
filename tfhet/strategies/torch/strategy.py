"""The strategy of PyTorch's ranks: DistributedDataParallel, FSDP, DeepSpeed, Lightning, over Gloo or NCCL.

As with any `env://`, rank 0's script opens the store in which the ranks meet (`torch.distributed.TCPStore`), so no
launcher imports torch. The leader only chooses the store's port and keeps it.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfhet.cluster import Rank, keep_free
from tfhet.strategies.rendezvous import RUN_ID, TorchRendezvous
from tfhet.strategies.strategy import Collective, RankSource, Strategy

_CONSEQUENCE = re.compile(
    r"Connection (closed|reset) by (remote )?peer|gloo/transport/\w+/(pair|unbound_buffer)\.cc"
    r"|Gloo connectFullMesh failed|received errors while waiting for send/recv from rank"
    r"|DistStoreError|The client socket has (timed out|failed to connect)|ailed to (recv, got|send, sent) 0 bytes"
    r"|Watchdog caught collective operation timeout|ncclRemoteError|remote process exit|NCCL communicator was aborted"
)
"""Errors of the remaining ranks when another rank has ended or hangs (PyTorch 2.13): of Gloo, including its timeouts;
of the store, if rank 0 does not open it or another rank does not connect; and of NCCL."""


@dataclass(frozen=True)
class TorchrunSource(RankSource):
    def read(self, env: Mapping[str, str]) -> Rank | None:
        """See `RankSource.read`. The names are so common that they count only together with torchrun's run id."""
        return super().read(env) if RUN_ID in env else None


TORCHRUN = TorchrunSource(
    "torchrun",
    "torchrun",
    "started by torchrun",
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    strategy="torch",
)
"""PyTorch's own launcher, which also sets where its ranks meet."""


class KeptPort:
    """The meeting of ranks at a port of the leader's host, reserved from `open` to `close`: the system assigns it to no
    other process, and only sockets with SO_REUSEADDR, such as rank 0's store, can listen there."""

    def __init__(self) -> None:
        self._held: socket.socket | None = None

    def load(self) -> None:
        """Does nothing: launchers do not need torch."""

    def open(self, address: str, interface: str, listen: str, peers: Collection[str]) -> Mapping[str, Any]:
        """Chooses a port that is free at all addresses, since PyTorch's store listens at all of them; see `Meeting`."""
        self._held = keep_free(socket.SO_REUSEADDR)
        return asdict(TorchRendezvous(address, self._held.getsockname()[1], interface))

    def close(self) -> None:
        """Releases the port. May be called again."""
        if self._held is not None:
            self._held.close()


class TorchStrategy(Strategy):
    name = "torch"
    sources: Sequence[RankSource] = (TORCHRUN,)
    order_type = TorchRendezvous
    consequences = _CONSEQUENCE

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> KeptPort | None:
        """A single rank has a meeting, too: scripts for torchrun expect it. So do the ranks of mpirun."""
        return None if source.name == TORCHRUN.name else KeptPort()

    def collective(self, size: int) -> Collective:
        from tfhet.strategies.torch.collective import TorchCollective

        return TorchCollective(size)


TORCH = TorchStrategy()
