"""The strategy of PyTorch's ranks: DistributedDataParallel, FSDP, DeepSpeed, Lightning, over Gloo or NCCL.

As with any `env://`, rank 0's script opens the store in which the ranks meet (`torch.distributed.TCPStore`), so no
launcher imports torch. The leader only chooses the store's port and keeps it.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from tfhet.cluster import Rank, keep_free
from tfhet.strategies.strategy import Collective, RankSource, Rendezvous, Strategy

RUN_ID = "TORCHELASTIC_RUN_ID"
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


@dataclass(frozen=True)
class TorchRendezvous(Rendezvous):
    """The address at which rank 0 opens the store of all ranks, and torchrun's variables for torch.distributed.

    Source: torch/distributed/elastic/agent/server/local_elastic_agent.py, `_start_workers` (PyTorch 2.13). Lightning
    recognises torchrun by TORCHELASTIC_RUN_ID, and reads NODE_RANK. DeepSpeed's launcher sets CROSS_RANK, CROSS_SIZE
    and LOCAL_SIZE (deepspeed/launcher/launch.py).
    """

    chosen: ClassVar[tuple[str, ...]] = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", RUN_ID)

    def usual(self, rank: Rank) -> dict[str, str]:
        """One thread per rank if a host has several, like torchrun: else each uses all cores."""
        return {"OMP_NUM_THREADS": "1"} if rank.local_size > 1 else {}

    def variables(self, host: str, rank: Rank) -> dict[str, str]:
        number, size, local, local_size = (str(n) for n in (rank.rank, rank.size, rank.local_rank, rank.local_size))
        group, groups = str(rank.rank // rank.local_size), str(rank.size // rank.local_size)
        return {
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
            "RANK": number,
            "WORLD_SIZE": size,
            "LOCAL_RANK": local,
            "LOCAL_WORLD_SIZE": local_size,
            "GROUP_RANK": group,
            "GROUP_WORLD_SIZE": groups,
            "ROLE_RANK": number,
            "ROLE_WORLD_SIZE": size,
            "ROLE_NAME": "default",
            "NODE_RANK": group,
            "CROSS_RANK": group,
            "CROSS_SIZE": groups,
            "LOCAL_SIZE": local_size,
            "GLOO_SOCKET_IFNAME": self.interface,
            "NCCL_SOCKET_IFNAME": self.interface,
            RUN_ID: "tfhet",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "False",
        }


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
    has_replicas = True
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
