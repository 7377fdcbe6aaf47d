"""A control group: the processes of one host with all that they start, their limits and their counters. It is a folder
in each tree that has a controller for it, in cgroup version 1 or 2 or in both (`hierarchy.py`)."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.container.hierarchy import INHERITED, OPTIONAL, VERSIONS, Hierarchy, Lines, hierarchies, read, write
from tfhet.errors import TfhetError, UsageError

PERIOD_S = 0.005
"""Shortest period of a quota, in seconds: a host of 0.2 CPUs pauses for 4 ms at a time, not for 80."""
LEAST_QUOTA_S, LONGEST_PERIOD_S = 0.001, 1.0
"""The kernel's own bounds."""
LEAST_CPUS = LEAST_QUOTA_S / LONGEST_PERIOD_S
REMOVE_S = 10.0
"""Seconds that a killed process may take to end."""


@dataclass(frozen=True)
class Limits:
    """The share of the machine that one host may use; of the network in each direction; None: no limit."""

    cpus: float | None = None
    """CPU seconds per second."""
    cpu_set: tuple[int, ...] | None = None
    memory_bytes: int | None = None
    bits_per_s: float | None = None
    latency_s: float | None = None
    loss_share: float | None = None

    def quota(self) -> tuple[int, int] | None:
        """(quota, period) in microseconds. The period grows if the kernel would refuse so short a quota."""
        if self.cpus is None:
            return None
        period_s = min(LONGEST_PERIOD_S, max(PERIOD_S, LEAST_QUOTA_S / self.cpus))
        return max(round(LEAST_QUOTA_S * 1e6), round(self.cpus * period_s * 1e6)), round(period_s * 1e6)

    def lost_without_root(self) -> tuple[str, ...]:
        """Names of the limits that need cgroups and a network namespace: all but the CPU set. RLIMIT_AS is no memory
        limit: it counts address space, which TensorFlow mostly only reserves."""
        is_tied = self.cpus is not None and self.cpu_set is not None and self.cpus >= len(self.cpu_set)
        values = {
            "CPU quota": None if is_tied else self.cpus,
            "memory": self.memory_bytes,
            "bandwidth": self.bits_per_s,
            "latency": self.latency_s,
            "packet loss": self.loss_share,
        }
        return tuple(name for name, value in values.items() if value is not None)


class Cgroup:
    """A group of this name in each of `trees`, made by `create`."""

    def __init__(self, name: str, trees: Sequence[Hierarchy]):
        self.name = name
        self._trees = {controller: tree for tree in trees for controller in tree.controllers}
        self._folders = tuple(tree.top / name for tree in trees)

    @classmethod
    def create(cls, name: str, trees: Sequence[Hierarchy] | None = None) -> Cgroup:
        """Makes a group without limits. Raises UsageError if this process cannot make one."""
        trees = hierarchies() if trees is None else trees
        cgroup = cls(name, trees)
        for folder in cgroup.folders:
            raise UsageError(f"cgroup {folder} exists already: the process that made it has not removed it")
        for tree in trees:
            try:
                tree.prepare()
                (tree.top / name).mkdir()
                if "cpuset" in tree.controllers:
                    cgroup._write(tree, VERSIONS[tree.version].created)
            except OSError as error:
                cgroup.remove()
                raise UsageError(
                    f"cgroup {tree.top / name} cannot be made ({error.strerror}): it takes root, and {tree.top}"
                    " mounted for writing (a container: --privileged); or use --hosts process"
                ) from None
        return cgroup

    def limit(self, limits: Limits) -> tuple[str, ...]:
        """Sets all limits, at any time; None lifts one. Returns the names of the limits that this machine cannot set.
        Raises UsageError for limits that the kernel refuses, such as less memory than is in use."""
        quota, period = limits.quota() or (0, 0)
        cpus = ",".join(map(str, limits.cpu_set or ()))
        values = {"quota": quota, "period": period, "cpus": cpus, "memory": limits.memory_bytes}
        missing = []
        for controller, name, wish in (
            ("cpu", "CPU quota", limits.cpus),
            ("cpuset", "CPU set", limits.cpu_set),
            ("memory", "memory", limits.memory_bytes),
        ):
            tree = self._trees.get(controller)
            if tree is None:
                missing += [name] if wish is not None else []
                continue
            version = VERSIONS[tree.version]
            try:
                self._write(tree, version.free[controller])
                if wish is not None:
                    self._write(tree, version.limit[controller], values)
            except OSError as error:
                reason = f"{tree.top / self.name}: {error.strerror}"
                if error.errno == errno.EBUSY and controller == "memory":
                    reason += ": its processes use more"
                raise UsageError(f"{name} of {self.name} cannot be set to {wish} ({reason})") from None
        return tuple(missing)

    @property
    def folders(self) -> list[Path]:
        """Its existing folders: one in each tree; none after `remove`."""
        return [folder for folder in self._folders if folder.exists()]

    def add(self, pid: int) -> None:
        """Moves a process into the group, with all its threads. Raises UsageError if the kernel refuses."""
        for folder in self._folders:
            try:
                write(folder / "cgroup.procs", str(pid))
            except OSError as error:
                raise UsageError(f"cgroup {folder}: process {pid} cannot be put into it: {error.strerror}") from None

    def pids(self) -> list[int]:
        """Ids of its processes, including subgroups."""
        found: set[int] = set()
        for folder in self._all_folders():
            with contextlib.suppress(OSError):  # gone
                found.update(map(int, read(folder / "cgroup.procs").split()))
        return sorted(found - {0})  # 0: of a PID namespace that we do not see

    def cpu_s(self) -> float:
        """CPU seconds of all processes that ever were in it. Raises UsageError if no controller counts them."""
        count = self._count("cpuacct", "used")
        if count is None:
            raise UsageError(f"cgroup {self.name}: no controller cpuacct counts here")
        return count / VERSIONS[self._trees["cpuacct"].version].ticks_per_s

    def memory_peak_bytes(self) -> int | None:
        """Peak memory, file cache included; None if it is not counted."""
        return self._count("memory", "peak")

    def out_of_memory_kills(self) -> int | None:
        """Processes that the kernel killed for the memory limit; None if it is not counted."""
        return self._count("memory", "killed")

    def remove(self) -> list[int]:
        """Kills its processes and removes it. Returns those that did not end in REMOVE_S. Raises TfhetError."""
        until = SYSTEM.monotonic() + REMOVE_S
        while True:
            left = self._remove_folders()
            if left is None:
                return []
            pids = self.pids()
            if SYSTEM.monotonic() >= until:
                if pids:
                    return pids
                raise TfhetError(f"cgroup {self.name}: cannot be removed: {left}")
            for folder in self._folders:
                with contextlib.suppress(OSError):  # version 1, or a kernel before 5.14
                    write(folder / "cgroup.kill", "1")
            for pid in pids:
                if pid != os.getpid():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
            SYSTEM.sleep(0.01)

    def _remove_folders(self) -> OSError | None:
        error: OSError | None = None
        for folder in self._all_folders():
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError as problem:
                error = problem
        return error

    def _all_folders(self) -> list[Path]:
        """Its folders and their subfolders, the deepest first."""
        found = [*self._folders]
        for folder in found:
            with contextlib.suppress(FileNotFoundError):
                found += [path for path in folder.iterdir() if path.is_dir()]
        return found[::-1]

    def _write(self, tree: Hierarchy, lines: Lines, values: Mapping[str, object] | None = None) -> None:
        for name, text in lines:
            file = tree.top / self.name / name
            if name in OPTIONAL and not file.exists():
                continue
            if text == INHERITED:
                text = read(tree.top / name).strip()
            write(file, text.format_map(values or {}))

    def _count(self, controller: str, counter: str) -> int | None:
        with contextlib.suppress(OSError, KeyError):
            tree = self._trees[controller]
            file, field = VERSIONS[tree.version].counters[counter]
            text = read(tree.top / self.name / file)
            return int(dict(line.split() for line in text.splitlines())[field] if field else text)
        return None
