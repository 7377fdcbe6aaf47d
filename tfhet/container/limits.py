"""What one host may use of the machine: CPUs, memory, network."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

CPU_QUOTA, CPU_SET, MEMORY, BANDWIDTH = "CPU quota", "CPU set", "memory", "bandwidth"
LATENCY, LOSS = "latency", "packet loss"
"""Names of the limits in a record that lists what was not limited."""
PERIOD_S = 0.005
"""Seconds between two quotas. Short, so that a host of 0.2 CPUs stands still for 4 ms at a time, not for 80."""
LEAST_QUOTA_S, LONGEST_PERIOD_S = 0.001, 1.0
"""The kernel's own bounds."""
LEAST_CPUS = LEAST_QUOTA_S / LONGEST_PERIOD_S


@dataclass(frozen=True)
class Limits:
    """What one host may use; None is as much as there is."""

    cpus: float | None = None
    """CPU seconds a second."""
    cpu_set: tuple[int, ...] | None = None
    """The machine's CPUs that it may run on."""
    memory_bytes: int | None = None
    bits_per_s: float | None = None
    """Bandwidth of its network interface, in each direction."""
    latency_s: float | None = None
    """Delay of each packet at its network interface, in each direction."""
    loss_share: float | None = None
    """Share of its packets, 0 to 1, that are lost, in each direction."""
    period_s: float = PERIOD_S
    """Shortest period of the quota."""

    def quota(self) -> tuple[int, int] | None:
        """(quota, period) in microseconds. The period is longer where the kernel would refuse so short a quota."""
        if self.cpus is None:
            return None
        period_s = min(LONGEST_PERIOD_S, max(self.period_s, LEAST_QUOTA_S / self.cpus))
        return max(round(LEAST_QUOTA_S * 1e6), round(self.cpus * period_s * 1e6)), round(period_s * 1e6)

    def lost_without_root(self) -> tuple[str, ...]:
        """Names of the limits that hold only with cgroups and a network of the host's own: all but the CPU set.

        No rlimit stands in for memory: rlimits hold for one process, not for a host, and RLIMIT_AS counts the address
        space, of which TensorFlow reserves many times what it uses.
        """
        tied = self.cpus is not None and self.cpu_set is not None and self.cpus >= len(self.cpu_set)
        lost = {
            CPU_QUOTA: self.cpus is not None and not tied,
            MEMORY: self.memory_bytes is not None,
            BANDWIDTH: self.bits_per_s is not None,
            LATENCY: self.latency_s is not None,
            LOSS: self.loss_share is not None,
        }
        return tuple(word for word, is_lost in lost.items() if is_lost)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
