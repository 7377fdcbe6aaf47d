"""A cable between a host's `eth0` and the bridge: two network devices, with a bandwidth limit, a delay and a loss.

host's namespace          switch's namespace
eth0 -------------------- device -- bridge                           usually
eth0 -------------------- device = delay line = b -- a -- bridge     with a delay
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from tfhet.container.netns import IP_BATCH, NetworkNamespace
from tfhet.errors import TfhetError, UsageError

ANSWER_LIMIT_S = 10.0
END_LIMIT_S = 5.0
_PROGRAM = Path(__file__).with_name("delay_program.py")
GROUP = 1
"""Device group of all cables: one command deletes a group; deleting devices one by one takes some 20 ms each."""
TC_BATCH = ("tc", "-batch", "-")
_ALL_SEGMENTS = 65535  # linux/netdevice.h, GSO_MAX_SEGS
SLOWEST_BITS_PER_S, FASTEST_BITS_PER_S = 1e4, 4e11
"""Outside these bounds the burst lasts longer, or the queue has more bytes, than tbf counts."""
BURST_BYTES = 70_000
"""Bytes that may pass at once: at least the 64 KiB that veth carries as one frame, or tbf would cut each into segments.
With this burst TCP reached 94 to 96 % of 20 Mbit/s to 1 Gbit/s on busy CPUs; with 10 kB, 33 to 48 % of 1 Gbit/s."""
QUEUE_BYTES, QUEUE_S = 262_144, 0.05
"""Smallest queue, and longest wait of a packet in it; TCP slows down when more packets are lost."""
PARTS = 1_000_000


def limiting(device: str, bits_per_s: float | None) -> str:
    """Line for tc that limits what a device sends, or lifts the limit (None). Raises UsageError beyond the bounds."""
    if bits_per_s is None:
        return f"qdisc delete dev {device} root"
    if not SLOWEST_BITS_PER_S <= bits_per_s <= FASTEST_BITS_PER_S:
        bounds = f"{SLOWEST_BITS_PER_S:g} to {FASTEST_BITS_PER_S:g}"
        raise UsageError(f"bandwidth of a host: {bits_per_s:g} bit/s; give {bounds}, or None for no limit")
    # tbf's timer may be 5 ms late while the hosts keep all CPUs busy.
    burst = max(BURST_BYTES, round(bits_per_s / 8 * 0.005))
    queue = max(QUEUE_BYTES, round(bits_per_s / 8 * QUEUE_S))
    return f"qdisc replace dev {device} root handle 1: tbf rate {round(bits_per_s)}bit burst {burst} limit {queue}"


def losing(table: str, device: str, share: float | None) -> list[str]:
    """Lines for nft that drop a share (0 to 1, None: 0) of the packets that arrive at a device."""
    lines = [f"add table netdev {table}", f"delete table netdev {table}"]
    if share:
        chance = f"numgen random mod {PARTS} < {round(share * PARTS)} " if share < 1 else ""
        hook = f'type filter hook ingress device "{device}" priority 0'
        lines += [f"table netdev {table} {{", "chain arriving {", f"{hook}; policy accept;", f"{chance}drop", "}", "}"]
    return lines


class Cable:
    """The cable of one host. Its methods raise UsageError and TfhetError like the methods of a Bridge."""

    def __init__(self, switch: NetworkNamespace, device: str, namespace: NetworkNamespace, address: IPv4Address):
        """device: its end in the namespace `switch`. namespace: the host's; it outlives the host's processes."""
        self.device, self.address = device, address
        self._switch, self._namespace = switch, namespace
        self._bits_per_s: float | None = None
        self._share: float | None = None
        self._line: DelayLine | None = None
        self._blocked: set[IPv4Address] = set()

    @property
    def port(self) -> str:
        """The device that is in the bridge."""
        return self.device if self._line is None else f"{self.device}a"

    def connect(self, bridge: str, subnet: IPv4Network) -> None:
        """Makes both ends, one in a bridge, the other one with the address. Leaves nothing if it raises."""
        ends = [
            f"link add {self.device} group {GROUP} master {bridge} type veth"
            f" peer name eth0 address {hardware(self.address)} netns {self._namespace.path}",
            f"link set {self.device} up",
        ]
        far_end = ["link set lo up", "link set eth0 up", *neighbours(subnet, self.address, "eth0")]
        try:
            self._switch.run(IP_BATCH, ends, [self._namespace])
            self._namespace.ip(*far_end)
        except BaseException:
            with self.ending(), contextlib.suppress(TfhetError):
                self._switch.ip(f"link delete {self.device}")
            raise

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Ends the delay line on entry and releases the host's namespace on exit. The devices have to be deleted in
        between: a namespace without processes and descriptors takes them with it."""
        try:
            if self._line is not None:
                self._line.close()
            yield
        finally:
            self._namespace.close()

    def limit(self, bits_per_s: float | None) -> None:
        """Limits the bandwidth of both ends, or lifts the limit."""
        if (bits_per_s, self._bits_per_s) != (None, None):
            for namespace, device in ((self._switch, self.device), (self._namespace, "eth0")):
                namespace.run(TC_BATCH, [limiting(device, bits_per_s)])
            self._bits_per_s = bits_per_s

    def delay(self, delay_s: float | None, bridge: str) -> None:
        """Delays packets, or lifts the delay. bridge: the bridge that the port is in."""
        if delay_s is not None:
            if self._line is None:
                self._line = self._inserted_line(bridge)
                self.lose(self._share)  # at the device that is the port now
            self._line.set(delay_s)
        elif self._line is not None:
            self._line.close()
            self._switch.ip(f"link delete {self.port}", f"link set {self.device} master {bridge}")
            self._line = None
            self.lose(self._share)

    def lose(self, share: float | None) -> None:
        """Drops a share of the packets where they arrive: in the bridge, and at the host. Packets are cut to the size
        of a real network first; else frames of 64 KiB, which veth passes on whole, would be lost."""
        if not share and not self._share:
            return
        self._share = share
        segments = 1 if share else _ALL_SEGMENTS
        self._switch.ip(*(f"link set {device} gso_max_segs {segments}" for device in {self.device, self.port}))
        self._namespace.ip(f"link set eth0 gso_max_segs {segments}")
        for namespace, device in ((self._switch, self.port), (self._namespace, "eth0")):
            namespace.run(["nft", "-f", "-"], losing(self.device, device, share))

    def block(self, others: set[IPv4Address]) -> None:
        """Lets nothing that the host sends to these addresses arrive, and what it sends to all others. The host sends
        to its own hardware address then, and no bridge passes a frame back to where it came from."""
        aims = {other: self.address if other in others else other for other in others ^ self._blocked}
        if aims:
            self._namespace.ip(*(_neighbour(other, aim, "eth0") for other, aim in aims.items()))
        self._blocked = others

    def _inserted_line(self, bridge: str) -> DelayLine:
        near, far = f"{self.device}a", f"{self.device}b"
        pair = f"link add {near} master {bridge} type veth peer name {far}"
        self._switch.ip(pair, f"link set {near} up", f"link set {far} up")
        try:
            line = DelayLine(self._switch, (self.device, far))
        except BaseException:
            self._switch.ip(f"link delete {near}")
            raise
        self._switch.ip(f"link set {self.device} nomaster")
        return line


def hardware(address: IPv4Address) -> str:
    """The hardware address for an IP address: locally administered, so no other device has it."""
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x74, *address.packed))


def neighbours(subnet: IPv4Network, address: IPv4Address, device: str) -> Iterator[str]:
    """Lines for ip that set a device's address, and the hardware addresses of all other hosts of the subnet."""
    if device != "eth0":
        yield f"link set {device} address {hardware(address)}"
    yield f"address add {address}/{subnet.prefixlen} dev {device}"
    for other in subnet.hosts():
        if other != address:
            yield _neighbour(other, other, device)


def _neighbour(other: IPv4Address, aim: IPv4Address, device: str) -> str:
    return f"neighbour replace {other} lladdr {hardware(aim)} dev {device} nud permanent"


class DelayLine:
    """A running `delay_program.py` between two devices of a namespace, which passes nothing until `set` is called. It
    replaces netem, which not every kernel has.
    Raises TfhetError if the program does not start."""

    def __init__(self, namespace: NetworkNamespace, devices: tuple[str, str]):
        self._name = f"the delay line between {' and '.join(devices)}"
        self._process = subprocess.Popen(
            ["nsenter", f"--net={namespace.path}", "--", sys.executable, "-I", "-S", str(_PROGRAM), *devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(namespace.descriptor,),
        )
        if (answer := self._answer()) != "ready":
            self.close()
            raise TfhetError(f"{self._name} does not start: {answer}")

    def set(self, delay_s: float) -> None:
        """Sets the delay of each frame, in each direction. Raises TfhetError if the program has ended."""
        microseconds = str(round(delay_s * 1e6))
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{microseconds}\n".encode())
            self._process.stdin.flush()
            answer = self._answer()
        except OSError as error:
            answer = str(error)
        if answer != microseconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_LIMIT_S)
            raise TfhetError(f"{self._name} has ended with code {self._process.poll()}: {answer}")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], ANSWER_LIMIT_S)
        if not readable:
            return f"no answer within {ANSWER_LIMIT_S:g} s"
        return self._process.stdout.readline().decode(errors="replace").strip() or "it has closed its output"

    def close(self) -> None:
        """Ends the program; frames on their way are lost. May be called again."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
