"""The network of namespace hosts: a Linux bridge, and from it a cable to each host's `eth0`.

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
from dataclasses import dataclass, field
from types import TracebackType

from tfhet.cluster import environment
from tfhet.container import delay
from tfhet.container.cuts import Cuts, Side
from tfhet.container.netns import NetworkNamespace
from tfhet.container.shaping import Shape, check_delay, has_netem, losing
from tfhet.errors import TfhetError, UsageError

SUBNET = "10.77.0.0/24"
NAME_CHARACTERS = 15
"""Of a network device, at most."""
_LONGEST_TAG = NAME_CHARACTERS - len("tf" + "c9999")
_ALL_SEGMENTS = 65535  # how many a device takes in one piece: linux/netdevice.h, GSO_MAX_SEGS
_CABLES = 1  # a group of devices goes at once; one by one takes some 20 ms each
_BATCH = ["ip", "-batch", "-"]


@dataclass(frozen=True)
class Traffic:
    """What a host has sent and received."""

    sent_bytes: int
    received_bytes: int


@dataclass
class _Cable:
    """From a host's eth0 to the bridge."""

    device: str
    """Its end on our side."""
    address: ipaddress.IPv4Address
    namespace: NetworkNamespace
    """The host's: there also when its processes are gone."""
    shape: Shape = field(default_factory=Shape)
    share: float | None = None
    line: delay.DelayLine | None = None

    @property
    def port(self) -> str:
        """What is in the bridge."""
        return self.device if self.line is None else f"{self.device}a"


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
        self._cables: dict[str, _Cable] = {}
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
            bridge._switch.run(_BATCH, [*_bridge(bridge._name), *_place(network, network[-2], bridge._name)])
        except BaseException:
            bridge.close()
            raise
        return bridge

    def __enter__(self) -> Bridge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Takes all of it away. Safe to call again."""
        cables, self._cables = list(self._cables.values()), {}
        for cable in cables:
            if cable.line is not None:
                cable.line.close()
        try:
            if cables:  # the kernel would do it, a moment later
                self._ip(f"link delete group {_CABLES}")
        finally:
            for namespace in (*(cable.namespace for cable in cables), self._switch):
                namespace.close()

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
        cable = _Cable(f"{self._name}{next(self._numbers)}", at, NetworkNamespace.of(pid))
        try:
            self._switch.run(
                _BATCH,
                [
                    f"link add {cable.device} group {_CABLES} master {self._bridge_of(host)} type veth"
                    f" peer name eth0 address {hardware(at)} netns {cable.namespace.path}",
                    f"link set {cable.device} up",
                ],
                [cable.namespace],
            )
            cable.namespace.run(_BATCH, ["link set lo up", "link set eth0 up", *_place(self._subnet, at, "eth0")])
        except BaseException:
            with contextlib.suppress(TfhetError):
                self._ip(f"link delete {cable.device}")
            cable.namespace.close()
            raise
        self._cables[host] = cable

    def detach(self, host: str) -> None:
        """Takes its cable away; nothing when there is none."""
        cable = self._cables.pop(host, None)
        if cable is None:
            return
        try:
            if cable.line is not None:
                cable.line.close()
                self._ip(f"link delete {cable.port}")
            self._ip(f"link delete {cable.device}")
        finally:
            cable.namespace.close()

    def limit(self, host: str, bits_per_s: float | None) -> None:
        """Bandwidth of its cable, in each direction; None: no limit any more."""
        cable = self._cable(host)
        self._reshape(cable, Shape(bits_per_s, cable.shape.delay_s))

    def delay(self, host: str, delay_s: float | None) -> None:
        """Each packet takes so long, in each direction: a round trip takes twice that; None: no delay any more.

        The kernel's netem does it, or a delay line of our own where there is none.
        """
        cable = self._cable(host)
        check_delay(delay_s)
        if self._netem is None:
            self._netem = has_netem(self._switch)
        if self._netem:
            self._reshape(cable, Shape(cable.shape.bits_per_s, delay_s))
        elif delay_s is None:
            self._take_out_line(host, cable)
        else:
            if cable.line is None:
                self._put_in_line(host, cable)
            assert cable.line is not None
            cable.line.set(delay_s)

    def lose(self, host: str, share: float | None) -> None:
        """Loses a share (0 to 1) of its packets, by chance, in each direction; None: none any more."""
        cable = self._cable(host)
        losing("", "", share)
        cable.share = share
        self._lose(cable)

    def cut(self, hosts: Iterable[str]) -> None:
        """From now on `hosts` see each other and nobody else, and nobody else sees them. No link goes down."""
        within = frozenset(hosts)
        for host in within:
            self._cable(host)
        self._cuts.add(within)
        self._rewire()

    def heal(self, hosts: Iterable[str]) -> None:
        """Takes one cut of exactly these hosts back. When the network is closed already, nothing else happens."""
        self._cuts.remove(hosts)
        self._rewire()

    def bytes(self, host: str) -> Traffic:
        """What it has sent and received since it was attached, Ethernet headers included."""
        shown = self._switch.run(["ip", "-json", "-statistics", "link", "show", "dev", self._cable(host).device])
        counts = json.loads(shown)[0]["stats64"]
        return Traffic(counts["rx"]["bytes"], counts["tx"]["bytes"])

    def socket(self) -> socket.socket:
        """A TCP socket of this process that is in the hosts' network, with the subnet's last address: a stranger."""
        return self._switch.socket()

    def _cable(self, host: str) -> _Cable:
        if host not in self._cables:
            known = ", ".join(sorted(self._cables)) or "none"
            raise UsageError(f"{host} is not attached to the network; attached: {known}")
        return self._cables[host]

    def _ip(self, *lines: str) -> None:
        self._switch.run(_BATCH, lines)

    def _reshape(self, cable: _Cable, shape: Shape) -> None:
        for namespace, device in ((self._switch, cable.device), (cable.namespace, "eth0")):
            lines = shape.lines(device, cable.shape)
            if lines:
                namespace.run(["tc", "-batch", "-"], lines)
        cable.shape = shape

    def _lose(self, cable: _Cable) -> None:
        """Packets are lost where they arrive: in the bridge, and at the host.

        Before that they are cut to the size that a wire has, so that it is one of a hundred packets that is lost, and
        not one of a hundred of the 64 KiB that veth passes on in one piece.
        """
        segments = 1 if cable.share else _ALL_SEGMENTS
        self._ip(*(f"link set {device} gso_max_segs {segments}" for device in {cable.device, cable.port}))
        cable.namespace.run(_BATCH, [f"link set eth0 gso_max_segs {segments}"])
        for namespace, device in ((self._switch, cable.port), (cable.namespace, "eth0")):
            namespace.run(["nft", "-f", "-"], losing(cable.device, device, cable.share))

    def _put_in_line(self, host: str, cable: _Cable) -> None:
        """Between the cable's end and the bridge: device, delay line, device b, which is the other end of device a."""
        program = delay.build(environment())
        near, far = f"{cable.device}a", f"{cable.device}b"
        self._ip(
            f"link add {near} master {self._bridge_of(host)} type veth peer name {far}",
            f"link set {near} up",
            f"link set {far} up",
        )
        try:
            line = delay.DelayLine(program, self._switch, (cable.device, far))
        except BaseException:
            self._ip(f"link delete {near}")
            raise
        self._ip(f"link set {cable.device} nomaster")
        cable.line = line
        if cable.share:
            self._lose(cable)

    def _take_out_line(self, host: str, cable: _Cable) -> None:
        if cable.line is None:
            return
        cable.line.close()
        self._ip(f"link delete {cable.port}", f"link set {cable.device} master {self._bridge_of(host)}")
        cable.line = None
        if cable.share:
            self._lose(cable)

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


def hardware(address: ipaddress.IPv4Address) -> str:
    """The hardware address that belongs to an address: locally administered, so nobody else's."""
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x74, *address.packed))


def _bridge(name: str) -> Iterator[str]:
    """Lines for ip that make a bridge which passes on from the first moment."""
    yield f"link add {name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
    yield f"link set {name} up"


def _place(subnet: ipaddress.IPv4Network, address: ipaddress.IPv4Address, device: str) -> Iterator[str]:
    """Lines for ip that give a device its address, and the hardware addresses of all others."""
    if device != "eth0":
        yield f"link set {device} address {hardware(address)}"
    yield f"address add {address}/{subnet.prefixlen} dev {device}"
    for other in subnet.hosts():
        if other != address:
            yield f"neighbour replace {other} lladdr {hardware(other)} dev {device} nud permanent"
