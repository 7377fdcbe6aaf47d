"""The strategy of Horovod's ranks, and their rendezvous without MPI: its own server, and variables that give each rank
its place.

The same variables as horovodrun sets for Gloo: horovod/runner/gloo_run.py, `create_slot_env_vars` and
`create_run_env_vars`. Tensors on GPUs go by NCCL where Horovod was built with it, which is its own default.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfhet.cluster import Rank
from tfhet.errors import ClusterError, UsageError, shown
from tfhet.strategies.rank_source import RankSource
from tfhet.strategies.strategy import Collective, Strategy

_CHOSEN = ("HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")
"""Variables of a job that take precedence over the interface of resourceconfig.json."""
_PATIENCE = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "120"}
"""Seconds that the first rank waits for the others; Horovod's own 30 s are little for a busy host."""
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
class Rendezvous:
    """Where the ranks of a ring find each other: the order of this strategy."""

    address: str
    """Address or name of the host of the rendezvous server, as every rank reaches it."""
    port: int
    interface: str
    """Network interface between the hosts, of the same name on all, like `eth0`."""

    @classmethod
    def parse(cls, value: object) -> Rendezvous:
        """The rendezvous that a message holds. Raises ClusterError."""
        fields = value if isinstance(value, dict) else {}
        address, port, interface = (fields.get(name) for name in ("address", "port", "interface"))
        texts = (address, interface)
        if not all(isinstance(text, str) and text and text.isprintable() and " " not in text for text in texts):
            raise ClusterError(f"no address or interface of a rendezvous: {shown(value)}")
        if type(port) is not int or not 1 <= port <= 65535:
            raise ClusterError(f"no port of a rendezvous: {shown(value)}")
        return cls(str(address), port, str(interface))

    def environment(self, host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables that Horovod reads in the process of a rank on `host`, this one.

        Raises ClusterError where this host has no such network interface, which Gloo's own error does not name.
        """
        chosen = {name: env[name] for name in _CHOSEN if env.get(name)}
        whole = {**_PATIENCE, **env, **self.variables(host, rank), **chosen}
        interface, there = whole["HOROVOD_GLOO_IFACE"], [name for _, name in socket.if_nameindex()]
        if interface not in there:
            raise ClusterError(
                f"{host} has no network interface {interface!r}, over which the ranks should meet; it has "
                f"{', '.join(there)} (network_interface_name in resourceconfig.json)"
            )
        return whole

    def variables(self, host: str, rank: Rank) -> dict[str, str]:
        """The same variables as horovodrun sets. Ranks are numbered host by host, as many on each."""
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
    """The meeting of ranks on hosts, numbered host by host. Serves their rendezvous from `open` to `close`."""

    def __init__(self, hosts: Sequence[str], ranks_per_host: int):
        if ranks_per_host < 1 or not hosts:
            raise UsageError(f"a ring needs hosts and at least one rank on each, not {ranks_per_host} on {len(hosts)}")
        self.size = len(hosts) * ranks_per_host
        self._hosts = tuple(hosts)
        self._per_host = ranks_per_host
        self._server: Any = None
        self._rendezvous: Rendezvous | None = None

    def load(self) -> None:
        """Loads Horovod's server, which takes a moment. Raises UsageError where Horovod is not installed."""
        try:
            import horovod.runner.http.http_server  # noqa: F401
        except ImportError as error:
            raise UsageError(f"{self.size} ranks need Horovod: pip install tfhet[horovod] ({error})") from None

    def open(self, address: str, interface: str) -> Mapping[str, Any]:
        """Starts the rendezvous server, which ranks reach at `address`; Gloo uses the network `interface`.

        Raises UsageError where Horovod is not installed.
        """
        self.load()
        from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
        from horovod.runner.http.http_server import RendezvousServer

        plan = get_host_assignments(parse_hosts(",".join(f"{h}:{self._per_host}" for h in self._hosts)), self.size)
        self._server = RendezvousServer(0)
        port = self._server.start()
        # Without this, a peer that connects and sends nothing keeps this process from ending (Horovod 0.28.1).
        self._server._httpd.daemon_threads = True
        self._server.init(plan)
        self._rendezvous = Rendezvous(address, port, interface)
        return asdict(self._rendezvous)

    def variables(self, host: str, local_rank: int) -> Mapping[str, str]:
        """The variables of one rank."""
        assert self._rendezvous is not None
        number = self._hosts.index(host) * self._per_host + local_rank
        return self._rendezvous.variables(host, Rank(number, self.size, local_rank, self._per_host, "horovod"))

    def close(self) -> None:
        """Ends the server, which takes up to half a second. Safe to call again."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            server._httpd.server_close()  # Horovod leaves the listening socket to the garbage collector


class HorovodStrategy(Strategy):
    """See `Strategy`."""

    name = "horovod"
    sources: Sequence[RankSource] = (RUN,)

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> Ring | None:
        return Ring(hosts, per_host) if source.own and len(hosts) * per_host > 1 else None

    def check(self, order: Mapping[str, Any]) -> None:
        if order:
            Rendezvous.parse(order)

    def environment(self, order: Mapping[str, Any], host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        return Rendezvous.parse(order).environment(host, rank, env) if order else dict(env)

    def is_consequence(self, line: str) -> bool:
        return _CONSEQUENCE.search(line) is not None

    def collective(self, size: int) -> Collective:
        from tfhet.strategies.horovod.collective import HorovodCollective

        return HorovodCollective(size)


HOROVOD = HorovodStrategy()
