"""The variables with which ranks of PyTorch find each other, equal to torchrun's.

Source: torch/distributed/elastic/agent/server/local_elastic_agent.py, `_start_workers` (PyTorch 2.13). Lightning
recognises torchrun by TORCHELASTIC_RUN_ID, and reads NODE_RANK. DeepSpeed's launcher sets CROSS_RANK, CROSS_SIZE and
LOCAL_SIZE (deepspeed/launcher/launch.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.cluster import Rank
from tfhet.strategies import rendezvous

RUN_ID = "TORCHELASTIC_RUN_ID"


@dataclass(frozen=True)
class Rendezvous(rendezvous.Rendezvous):
    """The address at which rank 0 opens the store of all ranks: the order of this strategy."""

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
