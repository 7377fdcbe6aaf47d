"""Keeps the machine's CPUs from sleeping while hosts with quotas are measured.

A host that has used its quota leaves its CPU idle. A virtual CPU that has nothing to do is taken away by the hypervisor
and comes back with cold caches, and it takes longer to wake. Real hosts are not put to sleep a hundred times a second.

The kernel is asked to let idle CPUs spin (Documentation/power/pm_qos_interface.rst). Unlike the loops of idle_loops.py
that takes nothing from a host of several processes and more than one CPU.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

DEVICE = Path("/dev/cpu_dma_latency")
"""Holds the longest time, in microseconds, that a CPU may take to wake, as long as it is open."""


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """A block in which no CPU sleeps. Where the kernel has no DEVICE or no driver for idle CPUs
    (/sys/devices/system/cpu/cpuidle), or this process may not write to DEVICE, they sleep as ever."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(DEVICE.open("wb", buffering=0)).write(struct.pack("i", 0))
        yield
