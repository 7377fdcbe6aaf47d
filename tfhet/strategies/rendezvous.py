"""Where the ranks of a job find each other, as an order of the leader, and the variables that tell a rank so."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from tfhet.cluster import Rank
from tfhet.errors import ClusterError
from tfhet.schema import Order, Port

RUN_ID = "TORCHELASTIC_RUN_ID"
_Word = Annotated[str, Meta(pattern=r"\A[^\s\x00-\x1f\x7f-\xa0]+\Z")]


@dataclass(frozen=True)
class Rendezvous(Order):
    """The order of a strategy whose ranks meet at one port; each such strategy has a class of its own."""

    address: _Word
    """Address or name of the host where the ranks meet, as every rank reaches it."""
    port: Port
    interface: _Word
    """Network interface between the hosts, of the same name on all, like `eth0`."""

    chosen: ClassVar[tuple[str, ...]] = ()
    """Variables of a job that take precedence; the first names the network interfaces, with commas between them."""

    def environment(self, host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables that the script of a rank on `host`, this one, reads. Raises ClusterError where this
        host has no such network interface, which Gloo's own error does not name."""
        chosen = {name: env[name] for name in self.chosen if env.get(name)}
        whole = {**self.usual(rank), **env, **self.variables(host, rank), **chosen}
        there = [name for _, name in socket.if_nameindex()]
        for interface in whole[self.chosen[0]].split(","):
            if interface not in there:
                raise ClusterError(
                    f"{host} has no network interface {interface!r}, over which the ranks should meet; it has "
                    f"{', '.join(there)} (network_interface_name in resourceconfig.json)"
                )
        return whole

    def usual(self, rank: Rank) -> dict[str, str]:
        """Variables for a job that has not set them itself."""
        return {}

    def variables(self, host: str, rank: Rank) -> dict[str, str]:
        """The place of a rank. Ranks are numbered host by host, as many on each."""
        raise NotImplementedError


@dataclass(frozen=True)
class HorovodRendezvous(Rendezvous):
    """The address of the ranks' rendezvous server, and horovodrun's variables for Gloo: horovod/runner/gloo_run.py,
    `create_slot_env_vars` and `create_run_env_vars`. Horovod uses NCCL for tensors on GPUs if it was built with it."""

    chosen: ClassVar[tuple[str, ...]] = ("HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")

    def usual(self, rank: Rank) -> dict[str, str]:
        """Seconds that the first rank waits for the others; Horovod's default, 30 s, is too short on a busy host."""
        return {"HOROVOD_GLOO_TIMEOUT_SECONDS": "120"}

    def variables(self, host: str, rank: Rank) -> dict[str, str]:
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
