"""The network of namespace hosts: a Linux bridge, with a cable to each host's `eth0`.

The bridge is in a network namespace that only a descriptor of this process keeps alive. So the machine's firewall does
not see the hosts' traffic, simulators may use the same addresses, and the kernel removes all of it when this process
ends, however it ends. `ip netns` would leave a name behind.

Hosts know each other's hardware addresses from the start. So a host that is cut off is silent, as in a cloud's network,
and connections to it wait; with ARP the sender's kernel would soon report: no route to host.
"""

from __future__ import annotations

import abc
import contextlib
import ipaddress
import itertools
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from tfhet.container.cable import GROUP, Cable, neighbours
from tfhet.container.netns import NetworkNamespace
from tfhet.errors import UsageError

SUBNET = "10.77.0.0/24"


@dataclass(frozen=True)
class Partition:
    """Some hosts, separated from all others."""

    hosts: frozenset[str]
    direction: str = ""
    """"in": packets from other hosts are blocked; "out": packets to other hosts; "": both."""

    def blocks(self, sender: str, receiver: str) -> bool:
        within = (sender in self.hosts, receiver in self.hosts)
        return within[0] != within[1] and (not self.direction or within[self.direction == "in"])


class Partitions(abc.ABC):
    """The partitions of a network. Each lasts from `cut` to `heal`; partitions may overlap."""

    def __init__(self) -> None:
        self._cuts: list[Partition] = []

    def cut(self, hosts: Iterable[str], direction: str = "") -> None:
        """Separates `hosts`, which still reach each other, from all others. No link goes down."""
        self._cuts.append(Partition(frozenset(hosts), direction))
        self._apply()

    def heal(self, hosts: Iterable[str], direction: str = "") -> None:
        """Removes one cut of exactly these hosts. Raises ValueError if there is none."""
        self._cuts.remove(Partition(frozenset(hosts), direction))
        self._apply()

    def blocks(self, sender: str, receiver: str) -> bool:
        """Whether any partition blocks packets from one host to another."""
        return any(cut.blocks(sender, receiver) for cut in self._cuts)

    @abc.abstractmethod
    def _apply(self) -> None:
        """Lets each host reach all others, except where `blocks` is true."""


class Bridge(Partitions):
    """A network. Hosts are attached to it, and faults injected into it, by name. Every method takes some milliseconds,
    and raises UsageError for wrong use, and TfhetError if a command fails."""

    def __init__(self, tag: str, subnet: str = SUBNET):
        """tag: at most 8 letters and digits, for the names of devices. subnet: of the hosts' addresses, /24 to /29."""
        super().__init__()
        self._name = f"tf{tag}"
        self._subnet = ipaddress.IPv4Network(subnet)
        self._numbers = itertools.count(1)
        self._cables: dict[str, Cable] = {}
        self._switch = NetworkNamespace.new()
        try:
            # It passes packets on from the first moment.
            made = f"link add {self._name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
            self._switch.ip(made, f"link set {self._name} up", *neighbours(self._subnet, self._subnet[-2], self._name))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes the network. May be called again."""
        cables, self._cables = list(self._cables.values()), {}
        with contextlib.ExitStack() as stack:
            stack.callback(self._switch.close)
            for cable in cables:
                stack.enter_context(cable.ending())
            if cables:  # the kernel would do it, a moment later
                self._switch.ip(f"link delete group {GROUP}")

    def attach(self, host: str, pid: int, address: str) -> None:
        """Adds an `eth0` with `address` to the network namespace of process `pid`, and brings `eth0` and `lo` up."""
        device, at = f"{self._name}{next(self._numbers)}", ipaddress.IPv4Address(address)
        cable = Cable(self._switch, device, NetworkNamespace.of(pid), at)
        cable.connect(self._name, self._subnet)
        self._cables[host] = cable
        self._apply()

    def limit(self, host: str, bits_per_s: float | None) -> None:
        """Limits the bandwidth of a host in each direction; None lifts the limit."""
        self._cable(host).limit(bits_per_s)

    def delay(self, host: str, delay_s: float | None) -> None:
        """Delays each packet in each direction: a round trip takes twice `delay_s` longer; None lifts the delay."""
        self._cable(host).delay(delay_s, self._name)

    def lose(self, host: str, share: float | None) -> None:
        """Drops a share (0 to 1) of the packets at random in each direction; None lifts the loss."""
        self._cable(host).lose(share)

    def cut(self, hosts: Iterable[str], direction: str = "") -> None:
        super().cut([host for host in hosts if self._cable(host)], direction)

    def bytes(self, host: str) -> tuple[int, int]:
        """Bytes that a host has sent and received since it was attached, Ethernet headers included."""
        shown = self._switch.run(["ip", "-json", "-statistics", "link", "show", "dev", self._cable(host).device])
        counts = json.loads(shown)[0]["stats64"]
        return counts["rx"]["bytes"], counts["tx"]["bytes"]

    def socket(self) -> socket.socket:
        """A TCP socket of this process in the hosts' network, at the subnet's last address, which no host has."""
        return self._switch.socket()

    def _cable(self, host: str) -> Cable:
        if host not in self._cables:
            known = ", ".join(sorted(self._cables)) or "none"
            raise UsageError(f"{host} is not attached to the network; attached: {known}")
        return self._cables[host]

    def _apply(self) -> None:
        for sender, cable in self._cables.items():
            cable.block({other.address for name, other in self._cables.items() if self.blocks(sender, name)})
