"""A limited bandwidth, a delay and lost packets, as lines for tc and nft."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.container.netns import NetworkNamespace
from tfhet.errors import TfhetError, UsageError

SLOWEST_BITS_PER_S, FASTEST_BITS_PER_S = 1e4, 4e11
"""Outside these bounds the burst takes longer, or the queue has more bytes, than tbf counts."""
LONGEST_DELAY_S = 10.0
BURST_BYTES = 70_000
"""Bytes that may pass at once: at least the 64 KiB that veth carries in one piece, or tbf would cut each into segments.
TCP had 94 to 96 % of 20 Mbit/s to 1 Gbit/s so, also with all CPUs busy; with 10 kB, 33 to 48 % of 1 Gbit/s."""
BURST_S = 0.005
"""Shortest burst: tbf's timer may be that late while the hosts keep all CPUs busy."""
QUEUE_S = 0.05
"""Longest wait of a packet in the queue; beyond it packets are lost, and TCP slows down."""
QUEUE_BYTES = 262_144
"""Smallest queue: some pieces of 64 KiB."""
NETEM_PACKETS = 100_000
PARTS = 1_000_000
"""Resolution of the share of lost packets."""


@dataclass(frozen=True)
class Shape:
    """Bandwidth and delay of what a device sends. Raises UsageError for values outside the bounds."""

    bits_per_s: float | None = None
    delay_s: float | None = None
    """Delay by netem."""

    def __post_init__(self) -> None:
        if self.bits_per_s is not None and not SLOWEST_BITS_PER_S <= self.bits_per_s <= FASTEST_BITS_PER_S:
            bounds = f"{SLOWEST_BITS_PER_S:g} to {FASTEST_BITS_PER_S:g}"
            raise UsageError(f"bandwidth of a host: {self.bits_per_s:g} bit/s; give {bounds}, or None for no limit")
        check_delay(self.delay_s)

    def lines(self, device: str, before: Shape) -> list[str]:
        """Lines of a batch for tc that turn a device with the shape `before` into one with this shape."""
        lines = []
        if before != Shape() and before._kinds() != self._kinds():
            lines.append(f"qdisc delete dev {device} root")
        parent = "root"
        if self.delay_s is not None:
            delay = f"netem delay {round(self.delay_s * 1e6)}us limit {NETEM_PACKETS}"
            lines.append(f"qdisc replace dev {device} root handle 1: {delay}")
            parent = "parent 1:1"
        if self.bits_per_s is not None:
            bytes_per_s = self.bits_per_s / 8
            burst = max(BURST_BYTES, round(bytes_per_s * BURST_S))
            queue = max(QUEUE_BYTES, round(bytes_per_s * QUEUE_S))
            limit = f"tbf rate {round(self.bits_per_s)}bit burst {burst} limit {queue}"
            lines.append(f"qdisc replace dev {device} {parent} handle 2: {limit}")
        return lines

    def _kinds(self) -> tuple[bool, bool]:
        return self.bits_per_s is not None, self.delay_s is not None


def check_delay(delay_s: float | None) -> None:
    """Raises UsageError for a delay outside the bounds."""
    if delay_s is not None and not 0 < delay_s <= LONGEST_DELAY_S:
        raise UsageError(f"delay of a host's packets: {delay_s:g} s; give more than 0 and at most {LONGEST_DELAY_S:g}")


def losing(table: str, device: str, share: float | None) -> list[str]:
    """Lines for nft that lose a share (0 to 1) of what arrives at a device; None: nothing. They replace earlier ones.

    Raises UsageError for another share.
    """
    if share is not None and not 0 <= share <= 1:
        raise UsageError(f"share of a host's packets that are lost: {share:g}; give 0 to 1")
    lines = [f"add table netdev {table}", f"delete table netdev {table}"]
    if share:
        chance = f"numgen random mod {PARTS} < {round(share * PARTS)} " if share < 1 else ""
        hook = f'type filter hook ingress device "{device}" priority 0'
        lines += [f"table netdev {table} {{", "chain arriving {", f"{hook}; policy accept;", f"{chance}drop", "}", "}"]
    return lines


def has_netem(namespace: NetworkNamespace) -> bool:
    """Whether the kernel has netem. Tries it at the `lo` of a namespace without hosts."""
    try:
        namespace.run(["tc", "qdisc", "replace", "dev", "lo", "root", "netem", "delay", "1ms"])
    except TfhetError as error:
        if isinstance(error, UsageError):
            raise
        return False
    namespace.run(["tc", "qdisc", "delete", "dev", "lo", "root"])
    return True
