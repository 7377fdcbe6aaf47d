"""The strategy of Horovod's ranks, and the server of their rendezvous without MPI."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from tfhet.cluster import Rank
from tfhet.errors import UsageError
from tfhet.strategies.strategy import Collective, RankSource, Rendezvous, Strategy

_CONSEQUENCE = re.compile(r"Horovod has been shut down|HorovodInternalError|Connection (closed|reset) by peer")
"""Errors of the remaining ranks when another rank has ended (Horovod 0.28.1)."""

RUN = RankSource(
    "horovod",
    "horovodrun",
    "started by horovodrun, or with its variables",
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
)
"""Horovod's own launcher, over Gloo (horovod/runner/gloo_run.py)."""


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


class Ring:
    """The meeting of ranks numbered host by host. It serves their rendezvous from `open` to `close`."""

    def __init__(self, hosts: Sequence[str], ranks_per_host: int):
        if ranks_per_host < 1 or not hosts:
            raise UsageError(f"a ring needs hosts and at least one rank on each, not {ranks_per_host} on {len(hosts)}")
        self.size = len(hosts) * ranks_per_host
        self._hosts, self._per_host = tuple(hosts), ranks_per_host
        self._server: Any = None
        self._rendezvous: HorovodRendezvous | None = None

    def load(self) -> None:
        """Imports Horovod's server. Raises UsageError if Horovod is not installed."""
        try:
            import tfhet.strategies.horovod.server  # noqa: F401
        except ImportError as error:
            what = "pip install 'tfhet[horovod]', or --strategy torch for a PyTorch script"
            raise UsageError(f"{self.size} ranks need Horovod: {what} ({error})") from None

    def open(self, address: str, interface: str, listen: str, peers: Collection[str]) -> Mapping[str, Any]:
        """Starts the server, see `Meeting`; Gloo uses the network `interface`. Raises UsageError like `load`."""
        self.load()
        from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts

        from tfhet.strategies.horovod.server import RendezvousServer

        plan = get_host_assignments(parse_hosts(",".join(f"{h}:{self._per_host}" for h in self._hosts)), self.size)
        self._server = RendezvousServer(listen, peers)
        self._server.init(plan)
        threading.Thread(target=self._server.serve_forever, name="tfhet-rendezvous", daemon=True).start()
        self._rendezvous = HorovodRendezvous(address, self._server.server_port, interface)
        return asdict(self._rendezvous)

    def variables(self, host: str, local_rank: int) -> Mapping[str, str]:
        assert self._rendezvous is not None
        number = self._hosts.index(host) * self._per_host + local_rank
        return self._rendezvous.variables(host, Rank(number, self.size, local_rank, self._per_host, "horovod"))

    def close(self) -> None:
        """Ends the server, in up to half a second. May be called again."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


class HorovodStrategy(Strategy):
    name = "horovod"
    has_replicas = True
    sources: Sequence[RankSource] = (RUN,)
    order_type = HorovodRendezvous
    consequences = _CONSEQUENCE

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> Ring | None:
        return Ring(hosts, per_host) if source.own and len(hosts) * per_host > 1 else None

    def collective(self, size: int) -> Collective:
        from tfhet.strategies.horovod.collective import HorovodCollective

        return HorovodCollective(size)


HOROVOD = HorovodStrategy()
