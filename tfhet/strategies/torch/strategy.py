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
from tfhet.strategies.rank_source import RankSource
from tfhet.strategies.strategy import Collective, Strategy
from tfhet.strategies.torch.rendezvous import RUN_ID, Rendezvous

_CONSEQUENCE = re.compile(
    r"Connection (closed|reset) by (remote )?peer|gloo/transport/\w+/(pair|unbound_buffer)\.cc"
    r"|Gloo connectFullMesh failed|received errors while waiting for send/recv from rank"
    r"|DistStoreError|The client socket has (timed out|failed to connect)|ailed to (recv, got|send, sent) 0 bytes"
    r"|Watchdog caught collective operation timeout|ncclRemoteError|remote process exit|NCCL communicator was aborted"
)
"""Errors of the remaining ranks when another rank has ended or hangs (PyTorch 2.13): of Gloo, which also reports a wait
that was too long; of the store, when rank 0 does not open it, or another rank does not come; and of NCCL."""


@dataclass(frozen=True)
class TorchrunSource(RankSource):
    def read(self, env: Mapping[str, str]) -> Rank | None:
        """See `RankSource.read`; the names are so common that they count only beside the id of torchrun's run."""
        return super().read(env) if RUN_ID in env else None


TORCHRUN = TorchrunSource(
    "torchrun",
    "torchrun",
    "started by torchrun",
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    strategy="torch",
)
"""PyTorch's own launcher, which also tells its ranks where they meet."""


class KeptPort:
    """The meeting of ranks at a port of the leader's host. From `open` to `close` the port is kept: no process gets it
    by asking for any free port, and none can listen there but with SO_REUSEADDR, as rank 0's store does (and as most
    servers do that are given this very number)."""

    def __init__(self) -> None:
        self._held: socket.socket | None = None

    def load(self) -> None:
        """Nothing: the launchers do without torch."""

    def open(self, address: str, interface: str, listen: str, peers: Collection[str]) -> Mapping[str, Any]:
        """Chooses a port that is free at all addresses, since PyTorch's store listens at all of them; see `Meeting`."""
        self._held = keep_free(socket.SO_REUSEADDR)
        return asdict(Rendezvous(address, self._held.getsockname()[1], interface))

    def close(self) -> None:
        """Gives the port up. Safe to call again."""
        if self._held is not None:
            self._held.close()


class TorchStrategy(Strategy):
    name = "torch"
    sources: Sequence[RankSource] = (TORCHRUN,)

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> KeptPort | None:
        """Also one rank has a meeting: a script for torchrun asks for it. mpirun's ranks need one, too."""
        return None if source.name == TORCHRUN.name else KeptPort()

    def check(self, order: Mapping[str, Any]) -> None:
        if order:
            Rendezvous.parse(order)

    def environment(self, order: Mapping[str, Any], host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        return Rendezvous.parse(order).environment(host, rank, env) if order else dict(env)

    def is_consequence(self, line: str) -> bool:
        return _CONSEQUENCE.search(line) is not None

    def collective(self, size: int) -> Collective:
        from tfhet.strategies.torch.collective import TorchCollective

        return TorchCollective(size)


TORCH = TorchStrategy()
