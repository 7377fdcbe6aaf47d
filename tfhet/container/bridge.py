"""The network of namespace hosts: a Linux bridge, and from it a cable to each host's `eth0`.

    with contextlib.closing(Bridge("ab3d")) as bridge:
        bridge.attach("algo-1", pid_1, "10.77.0.1")
        bridge.limit("algo-1", 100e6)  # 100 Mbit/s in each direction
        bridge.cut(["algo-1"])  # no other host sees it any more

The bridge is in a network namespace of its own, which only a descriptor of this process keeps alive. So the machine's
firewall has no say in what the hosts send each other (where Docker is, it drops what it does not know), every
simulator may use the same addresses, and when this process ends, however it ends, the kernel removes all of it.

Hosts know each other's hardware addresses from the start. So one that is cut off is silent, as it would be in a
cloud's network, and connections to it wait; with ARP the host's own kernel would soon say: no route to host.
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

from tfhet.container import delay
from tfhet.container.cable import GROUP, IP_BATCH, Cable, neighbours
from tfhet.container.netns import NetworkNamespace
from tfhet.errors import UsageError

SUBNET = "10.77.0.0/24"


@dataclass(frozen=True)
class Partition:
    """Some hosts, separated from all others."""

    hosts: frozenset[str]
    way: str = ""
    """"in": what others send them is held; "out": what they send others; "": both."""

    def holds(self, sender: str, receiver: str) -> bool:
        within = (sender in self.hosts, receiver in self.hosts)
        return within[0] != within[1] and (not self.way or within[self.way == "in"])


class Partitions(abc.ABC):
    """The partitions of a network, each of which lasts from `cut` to `heal`. They may overlap."""

    def __init__(self) -> None:
        self._cuts: list[Partition] = []

    def cut(self, hosts: Iterable[str], way: str = "") -> None:
        """Separates `hosts`, which still see each other, from all others. No link goes down. way: of a Partition."""
        self._cuts.append(Partition(frozenset(hosts), way))
        self._aim()

    def heal(self, hosts: Iterable[str], way: str = "") -> None:
        """Takes one cut of exactly these hosts back. Raises ValueError where there is none."""
        self._cuts.remove(Partition(frozenset(hosts), way))
        self._aim()

    def holds(self, sender: str, receiver: str) -> bool:
        """Whether any of them holds what one host sends to another."""
        return any(cut.holds(sender, receiver) for cut in self._cuts)

    @abc.abstractmethod
    def _aim(self) -> None:
        """Lets each host reach all others, but for those that a cut keeps from hearing it."""


class Bridge(Partitions):
    """A network. Hosts are attached to it, and faults done to them, by name. Every call takes some milliseconds, and
    raises UsageError for wrong use, TfhetError with the command and its message where one fails."""

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
            self._ip(made, f"link set {self._name} up", *neighbours(self._subnet, self._subnet[-2], self._name))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes all of it. Safe to call again."""
        cables, self._cables = list(self._cables.values()), {}
        with contextlib.ExitStack() as stack:
            stack.callback(self._switch.close)
            for cable in cables:
                stack.enter_context(cable.ending())
            if cables:  # the kernel would do it, a moment later
                self._ip(f"link delete group {GROUP}")

    def attach(self, host: str, pid: int, address: str) -> None:
        """Gives the network namespace of process `pid` an `eth0` with `address` and brings it up, and `lo`."""
        device, at = f"{self._name}{next(self._numbers)}", ipaddress.IPv4Address(address)
        cable = Cable(self._switch, device, NetworkNamespace.of(pid), at)
        cable.lay(self._name, self._subnet)
        self._cables[host] = cable
        self._aim()

    def limit(self, host: str, bits_per_s: float | None) -> None:
        """Limits the bandwidth of its cable, in each direction; None lifts the limit."""
        self._cable(host).limit(bits_per_s)

    def prepare_delay(self) -> None:
        """Compiles the delay line, so that the first `delay` takes milliseconds too."""
        delay.build()

    def delay(self, host: str, delay_s: float | None) -> None:
        """Delays each packet, in each direction: a round trip takes twice `delay_s` more; None lifts the delay."""
        self._cable(host).delay(delay_s, self._name)

    def lose(self, host: str, share: float | None) -> None:
        """Loses a share (0 to 1) of its packets at random, in each direction; None lifts the loss."""
        self._cable(host).lose(share)

    def cut(self, hosts: Iterable[str], way: str = "") -> None:
        super().cut([host for host in hosts if self._cable(host)], way)

    def bytes(self, host: str) -> tuple[int, int]:
        """Bytes that it has sent and received since it was attached, Ethernet headers included."""
        shown = self._switch.run(["ip", "-json", "-statistics", "link", "show", "dev", self._cable(host).device])
        counts = json.loads(shown)[0]["stats64"]
        return counts["rx"]["bytes"], counts["tx"]["bytes"]

    def socket(self) -> socket.socket:
        """A TCP socket of this process in the hosts' network, with the subnet's last address, which is no host's."""
        return self._switch.socket()

    def _cable(self, host: str) -> Cable:
        if host not in self._cables:
            known = ", ".join(sorted(self._cables)) or "none"
            raise UsageError(f"{host} is not attached to the network; attached: {known}")
        return self._cables[host]

    def _ip(self, *lines: str) -> None:
        self._switch.run(IP_BATCH, lines)

    def _aim(self) -> None:
        for sender, cable in self._cables.items():
            cable.miss({other.address for name, other in self._cables.items() if self.holds(sender, name)})
