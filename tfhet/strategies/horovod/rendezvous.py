"""The variables with which Horovod's ranks find each other without MPI.

They equal horovodrun's variables for Gloo: horovod/runner/gloo_run.py, `create_slot_env_vars` and
`create_run_env_vars`. Horovod uses NCCL for tensors on GPUs if it was built with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.cluster import Rank
from tfhet.strategies import rendezvous


@dataclass(frozen=True)
class Rendezvous(rendezvous.Rendezvous):
    """The address of the server of the ranks' rendezvous: the order of this strategy."""

    chosen: ClassVar[tuple[str, ...]] = ("HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")

    def usual(self, rank: Rank) -> dict[str, str]:
        """Seconds that the first rank waits for the others; Horovod's default, 30 s, is too short on a busy host."""
        return {"HOROVOD_GLOO_TIMEOUT_SECONDS": "120"}

    def variables(self, host: str, rank: Rank) -> dict[str, str]:
        """The variables that horovodrun sets."""
        return {
            "HOROVOD_HOSTNAME": host,
            "HOROVOD_RANK": str(rank.rank),
            "HOROVOD_SIZE": str(rank.size),
            "HOROVOD_LOCAL_RANK": str(rank.local_rank),
            "HOROVOD_LOCAL_SIZE": str(rank.local_size),
            "HOROVOD_CROSS_RANK": str(rank.rank // rank.local_size),
            "HOROVOD_CROSS_SIZE": str(rank.size // rank.local_size),
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": self.address,
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self.port),
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_IFACE": self.interface,
            "NCCL_SOCKET_IFNAME": self.interface,
        }
