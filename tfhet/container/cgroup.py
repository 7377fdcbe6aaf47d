"""A control group: the processes of one host, what they may use, and what they have used.

A group is a folder in each tree that has a controller for it, in cgroup version 1 or 2 or in both (`hierarchy.py`).
Its limits and counters hold for all processes that its processes start.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.container.hierarchy import FILES, INHERITED, OPTIONAL, VERSIONS, Files, Hierarchy, Lines, hierarchies
from tfhet.errors import TfhetError, UsageError

PERIOD_S = 0.005
"""Seconds between two quotas. Short, so that a host of 0.2 CPUs stands still for 4 ms at a time, not for 80."""
LEAST_QUOTA_S, LONGEST_PERIOD_S = 0.001, 1.0
"""The kernel's own bounds."""
LEAST_CPUS = LEAST_QUOTA_S / LONGEST_PERIOD_S
REMOVE_S = 10.0
"""Seconds that a killed process may take to die."""


@dataclass(frozen=True)
class Limits:
    """The share of the machine that one host may use; None: no limit."""

    cpus: float | None = None
    """CPU seconds per second."""
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
        """Names of the limits that hold only with cgroups and a network of the host's own: all but the CPU set. No
        rlimit stands in for memory: it holds for one process, not for a host, and RLIMIT_AS counts the address space,
        of which TensorFlow reserves many times what it uses."""
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

    def __init__(self, name: str, trees: Sequence[Hierarchy], files: Files = FILES):
        self.name = name
        self._files = files
        self._trees = {controller: tree for tree in trees for controller in tree.controllers}
        self._folders = tuple(tree.top / name for tree in trees)

    @classmethod
    def create(cls, name: str, trees: Sequence[Hierarchy] | None = None, files: Files = FILES) -> Cgroup:
        """A new group without limits. Raises UsageError where this process cannot make one."""
        trees = hierarchies() if trees is None else trees
        cgroup = cls(name, trees, files)
        for folder in cgroup.folders:
            raise UsageError(f"cgroup {folder} is there already: the process that made it has not removed it")
        for tree in trees:
            try:
                tree.prepare(files)
                files.make(tree.top / name)
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
        """Sets all limits, at any time; None lifts one. Returns what could not be limited here, in words. Raises
        UsageError for what the kernel refuses, such as less memory than is in use."""
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
        """Its existing folders: one in each tree; none when it has been removed."""
        return [folder for folder in self._folders if self._files.is_there(folder)]

    def add(self, pid: int) -> None:
        """Moves a process into the group, with all its threads. Raises UsageError where the kernel refuses."""
        for folder in self._folders:
            try:
                self._files.write(folder / "cgroup.procs", str(pid))
            except OSError as error:
                raise UsageError(f"cgroup {folder}: process {pid} cannot be put into it: {error.strerror}") from None

    def pids(self) -> list[int]:
        """Its processes, with those of groups below it."""
        found: set[int] = set()
        for folder in self._all_folders():
            with contextlib.suppress(OSError):  # gone
                found.update(map(int, self._files.read(folder / "cgroup.procs").split()))
        return sorted(found - {0})  # 0: of a PID namespace that we do not see

    def cpu_s(self) -> float:
        """CPU seconds of all processes that ever were in it. Raises UsageError where nothing counts them."""
        return self._seconds("cpuacct", "used")

    def throttled_s(self) -> float:
        """Seconds for which the quota kept it from running, summed over CPUs. Raises UsageError without a counter."""
        return self._seconds("cpu", "throttled")

    def memory_peak_bytes(self) -> int | None:
        """Peak memory, file cache included; None where that is not counted."""
        return self._count("memory", "peak")

    def out_of_memory_kills(self) -> int | None:
        """Processes that the kernel killed for the memory limit; None where that is not counted."""
        return self._count("memory", "killed")

    def remove(self) -> list[int]:
        """Ends what is in it (SIGKILL) and removes it. Returns the processes that did not die within REMOVE_S. Raises
        TfhetError when the kernel keeps an empty group."""
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
                    self._files.write(folder / "cgroup.kill", "1")
            for pid in pids:
                if pid != os.getpid():
                    self._files.kill(pid)
            SYSTEM.sleep(0.01)

    def _remove_folders(self) -> OSError | None:
        error: OSError | None = None
        for folder in self._all_folders():
            try:
                self._files.remove(folder)
            except FileNotFoundError:
                continue
            except OSError as problem:
                error = problem
        return error

    def _all_folders(self) -> list[Path]:
        """Its folders and those below them, the deepest first."""
        found = [*self._folders]
        for folder in found:
            found += self._files.folders(folder)
        return found[::-1]

    def _write(self, tree: Hierarchy, lines: Lines, values: Mapping[str, object] | None = None) -> None:
        for name, text in lines:
            file = tree.top / self.name / name
            if name in OPTIONAL and not self._files.is_there(file):
                continue
            if text == INHERITED:
                text = self._files.read(tree.top / name).strip()
            self._files.write(file, text.format_map(values or {}))

    def _count(self, controller: str, what: str) -> int | None:
        with contextlib.suppress(OSError, KeyError):
            tree = self._trees[controller]
            file, field = VERSIONS[tree.version].counters[what]
            text = self._files.read(tree.top / self.name / file)
            return int(dict(line.split() for line in text.splitlines())[field] if field else text)
        return None

    def _seconds(self, controller: str, what: str) -> float:
        count = self._count(controller, what)
        if count is None:
            raise UsageError(f"cgroup {self.name}: no controller {controller} counts here")
        return count / VERSIONS[self._trees[controller].version].ticks_per_s
