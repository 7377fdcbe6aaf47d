"""Where the ranks of a ring find each other without MPI, and the variables that give each rank its place.

The same variables as horovodrun sets for Gloo: horovod/runner/gloo_run.py, `create_slot_env_vars` and
`create_run_env_vars`. Tensors on GPUs go by NCCL where Horovod was built with it, which is its own default.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from tfhet.cluster import Rank
from tfhet.errors import ClusterError, DataError
from tfhet.messages import Port
from tfhet.record import Check, from_json_object

_CHOSEN = ("HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")
"""Variables of a job that take precedence over the interface of resourceconfig.json."""
_PATIENCE = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "120"}
"""Seconds that the first rank waits for the others; Horovod's own 30 s are little for a busy host."""

_Word = Annotated[str, Check("a word", lambda text: text != "" and text.isprintable() and " " not in text)]


@dataclass(frozen=True)
class Rendezvous:
    """Where the ranks of a ring find each other: the order of this strategy."""

    address: _Word
    """Address or name of the host of the rendezvous server, as every rank reaches it."""
    port: Port
    interface: _Word
    """Network interface between the hosts, of the same name on all, like `eth0`."""

    @classmethod
    def parse(cls, value: object) -> Rendezvous:
        """The rendezvous that a message holds. Raises ClusterError."""
        try:
            return from_json_object(cls, value, "the order of a rendezvous", strict=True)
        except DataError as error:
            raise ClusterError(str(error)) from None

    def environment(self, host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        """`env` with the variables that Horovod reads in the process of a rank on `host`, this one. Raises ClusterError
        where this host has no such network interface, which Gloo's own error does not name."""
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
