"""A cable between a host's `eth0` and the bridge: two network devices, with a bandwidth, a delay and a loss of its own.

host's namespace          switch's namespace
eth0 -------------------- device -- bridge                       usually
eth0 -------------------- device = delay line = b -- a -- bridge     a delay on a kernel without netem
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator

from tfhet.cluster import environment
from tfhet.container import delay
from tfhet.container.netns import NetworkNamespace
from tfhet.container.shaping import Shape, losing

GROUP = 1
"""Group of all cables: devices of a group are deleted at once; one by one takes some 20 ms each."""
IP_BATCH = ("ip", "-batch", "-")
_ALL_SEGMENTS = 65535  # segments that a device takes in one piece: linux/netdevice.h, GSO_MAX_SEGS


class Cable:
    """The cable of one host. Its calls raise UsageError and TfhetError as those of a Bridge."""

    def __init__(
        self, switch: NetworkNamespace, device: str, namespace: NetworkNamespace, address: ipaddress.IPv4Address
    ):
        """device: its end in the namespace `switch`. namespace: the host's, which stays when its processes are gone."""
        self.device = device
        self.address = address
        self._switch = switch
        self._namespace = namespace
        self._shape = Shape()
        self._share: float | None = None
        self._line: delay.DelayLine | None = None

    @property
    def port(self) -> str:
        """The device that is in the bridge."""
        return self.device if self._line is None else f"{self.device}a"

    def lay(self, bridge: str, subnet: ipaddress.IPv4Network) -> None:
        """Makes both ends, the near one in a bridge, the far one with the address. Leaves nothing when it raises."""
        self._switch.run(
            IP_BATCH,
            [
                f"link add {self.device} group {GROUP} master {bridge} type veth"
                f" peer name eth0 address {hardware(self.address)} netns {self._namespace.path}",
                f"link set {self.device} up",
            ],
            [self._namespace],
        )
        far_end = ["link set lo up", "link set eth0 up", *neighbours(subnet, self.address, "eth0")]
        self._namespace.run(IP_BATCH, far_end)

    def remove(self) -> None:
        """Takes both ends away."""
        with self.ending():
            self._ip(*(f"link delete {port}" for port in sorted({self.port, self.device}, reverse=True)))

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Ends the delay line at the beginning, and gives the host's namespace up at the end.

        The devices have to be deleted meanwhile: a namespace without processes and descriptors takes them with it.
        """
        try:
            if self._line is not None:
                self._line.close()
            yield
        finally:
            self._namespace.close()

    def limit(self, bits_per_s: float | None) -> None:
        self._reshape(Shape(bits_per_s, self._shape.delay_s))

    def delay(self, delay_s: float | None) -> None:
        """Delays packets by netem."""
        self._reshape(Shape(self._shape.bits_per_s, delay_s))

    def delay_by_line(self, delay_s: float | None, bridge: str) -> None:
        """Delays packets by a delay line. bridge: the one that the port is in."""
        if delay_s is not None:
            if self._line is None:
                self._put_in_line(bridge)
            assert self._line is not None
            self._line.set(delay_s)
        elif self._line is not None:
            self._line.close()
            self._ip(f"link delete {self.port}", f"link set {self.device} master {bridge}")
            self._line = None
            self._lose()

    def lose(self, share: float | None) -> None:
        losing("", "", share)
        self._share = share
        self._lose(lifted=not share)

    def _ip(self, *lines: str) -> None:
        self._switch.run(IP_BATCH, lines)

    def _reshape(self, shape: Shape) -> None:
        for namespace, device in ((self._switch, self.device), (self._namespace, "eth0")):
            if lines := shape.lines(device, self._shape):
                namespace.run(["tc", "-batch", "-"], lines)
        self._shape = shape

    def _lose(self, *, lifted: bool = False) -> None:
        """Loses packets where they arrive: in the bridge, and at the host.

        Before that they are cut to the size that a wire has, so that one of a hundred packets is lost, and not one of a
        hundred pieces of 64 KiB, which veth passes on whole.
        """
        if not (self._share or lifted):
            return
        segments = 1 if self._share else _ALL_SEGMENTS
        self._ip(*(f"link set {device} gso_max_segs {segments}" for device in {self.device, self.port}))
        self._namespace.run(IP_BATCH, [f"link set eth0 gso_max_segs {segments}"])
        for namespace, device in ((self._switch, self.port), (self._namespace, "eth0")):
            namespace.run(["nft", "-f", "-"], losing(self.device, device, self._share))

    def _put_in_line(self, bridge: str) -> None:
        program = delay.build(environment())
        near, far = f"{self.device}a", f"{self.device}b"
        self._ip(
            f"link add {near} master {bridge} type veth peer name {far}", f"link set {near} up", f"link set {far} up"
        )
        try:
            line = delay.DelayLine(program, self._switch, (self.device, far))
        except BaseException:
            self._ip(f"link delete {near}")
            raise
        self._ip(f"link set {self.device} nomaster")
        self._line = line
        self._lose()


def hardware(address: ipaddress.IPv4Address) -> str:
    """The hardware address that belongs to an address: locally administered, so no other device has it."""
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x74, *address.packed))


def neighbours(subnet: ipaddress.IPv4Network, address: ipaddress.IPv4Address, device: str) -> Iterator[str]:
    """Lines for ip that give a device its address, and the hardware addresses of all others."""
    if device != "eth0":
        yield f"link set {device} address {hardware(address)}"
    yield f"address add {address}/{subnet.prefixlen} dev {device}"
    for other in subnet.hosts():
        if other != address:
            yield f"neighbour replace {other} lladdr {hardware(other)} dev {device} nud permanent"
