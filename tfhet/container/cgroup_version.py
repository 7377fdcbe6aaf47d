"""What differs between cgroup version 1 and 2 for a group: the names and the order of its files, in one table.

Sources: the kernel's documentation, admin-guide/cgroup-v1 and admin-guide/cgroup-v2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Lines = tuple[tuple[str, str], ...]
"""Files of a group and what is written into each, in order."""
INHERITED = "inherited"
"""Stands for the value of the file at the top of the tree."""
OPTIONAL = {"cpu.cfs_burst_us", "cpu.max.burst", "memory.memsw.limit_in_bytes", "memory.swap.max"}
"""Files that not every kernel has: bursts from 5.14 on, swap where it is counted."""


@dataclass(frozen=True)
class Version:
    free: Mapping[str, Lines]
    """Lifts the limit, by controller."""
    limit: Mapping[str, Lines]
    """Sets the limit after `free`, by controller: `{quota}` and `{period}` in microseconds, `{cpus}` as a list with
    commas, `{memory}` in bytes."""
    created: Lines
    """What a new group in a tree with CPU sets needs before it takes a process."""
    prefer: Lines
    """Gives the group the greatest weight for CPU."""
    counters: Mapping[str, tuple[str, str]]
    """File and field ("": the file holds one number) of what is counted."""
    ticks_per_s: float
    """Unit of the counters of time."""


# A burst is leave to use in the next period what the group could not use at once. Without it, a thread that waits for
# its CPU loses the rest of the period: with one thread on a busy machine, 13 to 17 % of a quota of 0.5 CPUs; with it,
# less than 0.5 %. Every state between two lines has to be valid: a burst is never above the quota, and memory alone
# never above memory with swap.
VERSIONS = {
    1: Version(
        free={
            "cpu": (("cpu.cfs_burst_us", "0"), ("cpu.cfs_quota_us", "-1")),
            "cpuset": (("cpuset.cpus", INHERITED),),
            "memory": (("memory.memsw.limit_in_bytes", "-1"), ("memory.limit_in_bytes", "-1")),
        },
        limit={
            "cpu": (
                ("cpu.cfs_period_us", "{period}"),
                ("cpu.cfs_quota_us", "{quota}"),
                ("cpu.cfs_burst_us", "{quota}"),
            ),
            "cpuset": (("cpuset.cpus", "{cpus}"),),
            "memory": (("memory.limit_in_bytes", "{memory}"), ("memory.memsw.limit_in_bytes", "{memory}")),
        },
        created=(("cpuset.cpus", INHERITED), ("cpuset.mems", INHERITED)),
        prefer=(("cpu.shares", "262144"),),
        counters={
            "used": ("cpuacct.usage", ""),
            "throttled": ("cpu.stat", "throttled_time"),
            "peak": ("memory.max_usage_in_bytes", ""),
            "killed": ("memory.oom_control", "oom_kill"),
        },
        ticks_per_s=1e9,
    ),
    2: Version(
        free={
            "cpu": (("cpu.max.burst", "0"), ("cpu.max", "max")),
            "cpuset": (("cpuset.cpus", ""),),
            "memory": (("memory.max", "max"), ("memory.swap.max", "max")),
        },
        limit={
            "cpu": (("cpu.max", "{quota} {period}"), ("cpu.max.burst", "{quota}")),
            "cpuset": (("cpuset.cpus", "{cpus}"),),
            "memory": (("memory.max", "{memory}"), ("memory.swap.max", "0")),
        },
        created=(),
        prefer=(("cpu.weight", "10000"),),
        counters={
            "used": ("cpu.stat", "usage_usec"),
            "throttled": ("cpu.stat", "throttled_usec"),
            "peak": ("memory.peak", ""),
            "killed": ("memory.events", "oom_kill"),
        },
        ticks_per_s=1e6,
    ),
}
