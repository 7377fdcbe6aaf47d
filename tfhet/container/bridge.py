"""The network of namespace hosts: a Linux bridge, and from it a cable to each host's `eth0`.

    with Bridge.create("ab3d") as bridge:
        bridge.attach("algo-1", pid_1, "10.77.0.1")
        bridge.attach("algo-2", pid_2, "10.77.0.2")
        bridge.limit("algo-1", 100e6)  # 100 Mbit/s in each direction
        bridge.cut(["algo-2"])  # algo-1 and algo-2 do not see each other any more
        bridge.heal(["algo-2"])
        sent = bridge.bytes("algo-1").sent_bytes

The bridge is in a network namespace of its own, which only a descriptor of this process keeps alive. So the machine's
firewall has no say in what the hosts send each other (where Docker is, it drops what it does not know), every
simulator may use the same addresses, and when this process ends, however it ends, the kernel takes all of it away:
bridges, cables with both their ends, limits and rules.

Hosts know each other's hardware addresses from the start. So one that is cut off is silent, as it would be in a
cloud's network, and connections to it wait; with ARP the host's own kernel would soon say: no route to host.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfhet.container.cable import GROUP, IP_BATCH, Cable, neighbours
from tfhet.container.netns import NetworkNamespace
from tfhet.container.shaping import check_delay, has_netem
from tfhet.errors import TfhetError, UsageError

SUBNET = "10.77.0.0/24"
NAME_CHARACTERS = 15
"""Maximum length of a network device's name."""
_LONGEST_TAG = NAME_CHARACTERS - len("tf" + "c9999")


Side = frozenset[int]
"""The cuts that hold a host. Two hosts see each other if they are on the same side."""


class Cuts:
    """The cuts that stand. Each parts some hosts from all others; they may overlap."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._cuts: dict[int, frozenset[str]] = {}

    def add(self, hosts: Iterable[str]) -> None:
        self._cuts[next(self._numbers)] = frozenset(hosts)

    def remove(self, hosts: Iterable[str]) -> None:
        """Takes one cut of exactly these hosts back, the oldest. Raises UsageError when there is none."""
        within = frozenset(hosts)
        number = next((number for number, each in self._cuts.items() if each == within), None)
        if number is None:
            raise UsageError(f"nothing to heal: {', '.join(sorted(within)) or 'no host'} was not cut off")
        del self._cuts[number]

    def side(self, host: str) -> Side:
        return frozenset(number for number, hosts in self._cuts.items() if host in hosts)


@dataclass(frozen=True)
class Traffic:
    """Bytes that a host has sent and received."""

    sent_bytes: int
    received_bytes: int


class Bridge:
    """A network. Hosts are attached to it, and faults done to them, by name.

    Every call takes some milliseconds, and raises UsageError for wrong use and for a tool that is missing, TfhetError
    with the command and its message where one fails.
    """

    def __init__(self, name: str, subnet: ipaddress.IPv4Network, switch: NetworkNamespace):
        self._name = name
        self._subnet = subnet
        self._switch = switch
        self._numbers = itertools.count(1)
        self._cables: dict[str, Cable] = {}
        self._cuts = Cuts()
        self._bridges: dict[Side, str] = {Side(): name}
        self._netem: bool | None = None

    @classmethod
    def create(cls, tag: str, subnet: str = SUBNET) -> Bridge:
        """A network whose devices' names begin with `tf` and `tag`, for hosts with addresses of `subnet`."""
        try:
            network = ipaddress.IPv4Network(subnet)
        except ValueError as error:
            raise UsageError(f"subnet {subnet!r}: {error}") from None
        if not 24 <= network.prefixlen <= 29:
            raise UsageError(f"subnet {subnet}: give one from /24 to /29")
        if not (tag.isascii() and tag.isalnum() and len(tag) <= _LONGEST_TAG):
            raise UsageError(f"tag {tag!r} of a network: give 1 to {_LONGEST_TAG} letters and digits")
        bridge = cls(f"tf{tag}", network, NetworkNamespace.new())
        try:
            bridge._ip(*_bridge(bridge._name), *neighbours(network, network[-2], bridge._name))
        except BaseException:
            bridge.close()
            raise
        return bridge

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Takes all of it away. Safe to call again."""
        cables, self._cables = list(self._cables.values()), {}
        with contextlib.ExitStack() as stack:
            stack.callback(self._switch.close)
            for cable in cables:
                stack.enter_context(cable.ending())
            if cables:  # the kernel would do it, a moment later
                self._ip(f"link delete group {GROUP}")

    def attach(self, host: str, pid: int, address: str) -> None:
        """Gives the network namespace of process `pid` an `eth0` with `address`, and takes it up, and `lo`.

        For a host that is attached already, because it was started again, the old cable is taken away first, with its
        limit and faults; only the cuts stand.
        """
        at = ipaddress.IPv4Address(address)
        owner = next((name for name, cable in self._cables.items() if cable.address == at and name != host), None)
        if owner is not None or at not in list(self._subnet.hosts())[:-1]:
            why = f"is {owner}'s" if owner is not None else f"is none for a host of {self._subnet}"
            raise UsageError(f"{host}: address {address} {why}")
        self.detach(host)
        cable = Cable(self._switch, f"{self._name}{next(self._numbers)}", NetworkNamespace.of(pid), at)
        try:
            cable.lay(self._bridge_of(host), self._subnet)
        except BaseException:
            with contextlib.suppress(TfhetError):
                cable.remove()
            raise
        self._cables[host] = cable

    def detach(self, host: str) -> None:
        """Takes its cable away; does nothing when there is none."""
        if cable := self._cables.pop(host, None):
            cable.remove()

    def limit(self, host: str, bits_per_s: float | None) -> None:
        """Limits the bandwidth of its cable, in each direction; None: no limit any more."""
        self._cable(host).limit(bits_per_s)

    def delay(self, host: str, delay_s: float | None) -> None:
        """Delays each packet, in each direction: a round trip takes twice `delay_s` more; None: no delay any more.

        The kernel's netem does it, or a delay line (`delay.py`) on a kernel without netem.
        """
        cable = self._cable(host)
        check_delay(delay_s)
        if self._netem is None:
            self._netem = has_netem(self._switch)
        if self._netem:
            cable.delay(delay_s)
        else:
            cable.delay_by_line(delay_s, self._bridge_of(host))

    def lose(self, host: str, share: float | None) -> None:
        """Loses a share (0 to 1) of its packets, by chance, in each direction; None: none any more."""
        self._cable(host).lose(share)

    def cut(self, hosts: Iterable[str]) -> None:
        """Parts `hosts`, which go on seeing each other, from all other hosts. No link goes down."""
        within = frozenset(hosts)
        for host in within:
            self._cable(host)
        self._cuts.add(within)
        self._rewire()

    def heal(self, hosts: Iterable[str]) -> None:
        """Takes one cut of exactly these hosts back; does no more when the network is closed already."""
        self._cuts.remove(hosts)
        self._rewire()

    def bytes(self, host: str) -> Traffic:
        """Bytes that it has sent and received since it was attached, Ethernet headers included."""
        shown = self._switch.run(["ip", "-json", "-statistics", "link", "show", "dev", self._cable(host).device])
        counts = json.loads(shown)[0]["stats64"]
        return Traffic(counts["rx"]["bytes"], counts["tx"]["bytes"])

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

    def _bridge_of(self, host: str) -> str:
        return self._bridges[self._cuts.side(host)]

    def _rewire(self) -> None:
        """Puts every port into the bridge of its side. A port that changes bridges does not go down."""
        sides = {host: self._cuts.side(host) for host in self._cables}
        lines: list[str] = []
        for side in set(sides.values()) - set(self._bridges):
            self._bridges[side] = f"{self._name}c{next(self._numbers)}"
            lines += _bridge(self._bridges[side])
        lines += [f"link set {cable.port} master {self._bridges[sides[host]]}" for host, cable in self._cables.items()]
        for side in set(self._bridges) - set(sides.values()) - {Side()}:
            lines.append(f"link delete {self._bridges.pop(side)}")
        if self._switch.descriptor >= 0:
            self._ip(*lines)


def _bridge(name: str) -> Iterator[str]:
    """Lines for ip that make a bridge which passes packets on from the first moment."""
    yield f"link add {name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
    yield f"link set {name} up"
