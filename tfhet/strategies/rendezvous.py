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
