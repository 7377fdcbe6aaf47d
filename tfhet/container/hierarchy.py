"""The cgroup trees of this machine: the controllers that this process can use, their version, and their place.

Version 1 has a tree for each controller, or for several that are mounted together. Version 2 has one tree for all
controllers that no version 1 tree has. Both may be mounted at once. Their files differ (`VERSIONS`).
Sources: the kernel's documentation, admin-guide/cgroup-v1 and admin-guide/cgroup-v2.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
"""Controllers that a host's limits need. Version 2 counts CPU time (`cpuacct`) in every group, without a controller."""
REST = "tfhet.rest"
"""Group for this container's own processes in version 2, in which a group with subgroups has no processes."""


def read(path: Path) -> str:
    return path.read_text(encoding="ascii")


def write(path: Path, text: str) -> None:
    """Writes to a file of the kernel, which exists. Some of these files cannot be opened for reading."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode("ascii") + b"\n")
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Hierarchy:
    """One mounted tree of groups."""

    top: Path
    """Where it is mounted: in a container, the container's own group."""
    version: int
    controllers: tuple[str, ...]
    """The CONTROLLERS that it limits or counts."""

    def prepare(self) -> None:
        """Makes the controllers available to groups directly below the top. Raises OSError."""
        if self.version == 1:
            return
        control = self.top / "cgroup.subtree_control"
        for controller in sorted({*self.controllers} - {"cpuacct"} - {*read(control).split()}):
            try:
                write(control, f"+{controller}")
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                self._move_processes()
                write(control, f"+{controller}")

    def _move_processes(self) -> None:
        rest = self.top / REST
        rest.mkdir(exist_ok=True)
        for _ in range(20):  # a process that forks meanwhile is in the next list
            pids = read(self.top / "cgroup.procs").split()
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(OSError):  # it has ended, or is the kernel's
                    write(rest / "cgroup.procs", pid)


def hierarchies() -> tuple[Hierarchy, ...]:
    """The mounted trees with one of CONTROLLERS, each controller in one tree only."""
    found: list[Hierarchy] = []
    mounts = [each for each in psutil.disk_partitions(all=True) if each.fstype in ("cgroup", "cgroup2")]
    for mount in sorted(mounts, key=lambda mount: mount.fstype):  # version 2 has what version 1 leaves
        top, version, available = Path(mount.mountpoint), 1, mount.opts.split(",")
        if mount.fstype == "cgroup2":
            version, available = 2, ["cpuacct"]
            with contextlib.suppress(OSError):
                available += read(top / "cgroup.controllers").split()
        taken = {name for tree in found for name in tree.controllers}
        names = tuple(name for name in CONTROLLERS if name in available and name not in taken)
        if names:
            found.append(Hierarchy(top, version, names))
    return tuple(found)


def controllers() -> dict[str, int]:
    """Version of each controller with which this process can make groups: mounted, and writable for this user."""
    writable = [tree for tree in hierarchies() if os.access(tree.top, os.W_OK)]
    return {controller: tree.version for tree in writable for controller in tree.controllers}


Lines = tuple[tuple[str, str], ...]
"""Files of a group and the text to write into each, in order."""
INHERITED = "inherited"
"""Placeholder for the value of the same file at the top of the tree."""
OPTIONAL = {"cpu.cfs_burst_us", "cpu.max.burst", "memory.memsw.limit_in_bytes", "memory.swap.max"}
"""Files that not every kernel has: bursts since 5.14, swap if it is counted."""


@dataclass(frozen=True)
class Version:
    """Files of a group in one version of cgroups, and the order in which they are written."""

    free: Mapping[str, Lines]
    """Lines that lift the limit, by controller."""
    limit: Mapping[str, Lines]
    """Lines that set the limit after `free`, by controller: `{quota}` and `{period}` in microseconds, `{cpus}` as a
    list with commas, `{memory}` in bytes."""
    created: Lines
    """Lines that a new group in a tree with CPU sets needs before it takes a process."""
    counters: Mapping[str, tuple[str, str]]
    """File and field ("": the file holds one number) of each counter."""
    ticks_per_s: float
    """Unit of the counters of time."""


# A burst lets a group use in the next period the CPU time that it did not use in this one. Without it, a thread that
# waits for its CPU loses the rest of the period: on a busy machine 13 to 17 % of a quota of 0.5 CPUs, with it less than
# 0.5 %. Every state between two lines has to be valid: burst <= quota, and memory <= memory with swap.
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
        counters={
            "used": ("cpuacct.usage", ""),
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
        counters={
            "used": ("cpu.stat", "usage_usec"),
            "peak": ("memory.peak", ""),
            "killed": ("memory.events", "oom_kill"),
        },
        ticks_per_s=1e6,
    ),
}
