"""A control group: the processes of one host, what they may use, and what they have used; in cgroup version 1 or 2.

A group is a folder in each tree that has a controller for it (see hierarchy.py). Where both versions are mounted, each
controller is used where it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tfhet.clock import SYSTEM, Clock
from tfhet.container.hierarchy import FILES, Files, Hierarchy, hierarchies
from tfhet.container.limits import CPU_QUOTA, CPU_SET, MEMORY, Limits
from tfhet.errors import TfhetError, UsageError

REMOVE_S = 10.0
_PAUSE_S = 0.01


class Cgroup:
    """One group, made by `create`. What limits and counts in it holds for all processes that its processes start."""

    def __init__(self, name: str, places: Sequence[tuple[Hierarchy, Path]], files: Files = FILES):
        self.name = name
        self._files = files
        self._folders = tuple(folder for _, folder in places)
        self._of = {
            controller: (hierarchy, folder) for hierarchy, folder in places for controller in hierarchy.controllers
        }

    @classmethod
    def create(cls, name: str, trees: Sequence[Hierarchy] | None = None, files: Files = FILES) -> Cgroup:
        """A new group without limits. Raises UsageError where this process cannot make one."""
        trees = hierarchies() if trees is None else trees
        if not trees:
            raise UsageError(
                "no cgroup is mounted here: mount one (mount -t cgroup2 none /sys/fs/cgroup), or use --hosts process"
            )
        cgroup = cls(name, [(tree, tree.top / name) for tree in trees], files)
        for tree in trees:
            if files.is_there(tree.top / name):
                raise UsageError(f"cgroup {tree.top / name} is there already: whoever made it has not removed it")
        for tree in trees:
            try:
                tree.prepare(files)
                files.make(tree.top / name)
                if tree.version == 1 and "cpuset" in tree.controllers:
                    for what in ("cpus", "mems"):  # a group without them takes no process
                        files.write(tree.top / name / f"cpuset.{what}", cgroup._inherited(tree, what))
            except OSError as error:
                cgroup.remove()
                raise UsageError(
                    f"cgroup {tree.top / name} cannot be made ({error.strerror}): it takes root, and {tree.top}"
                    " mounted for writing (a container: --privileged); or use --hosts process"
                ) from None
        return cgroup

    def limit(self, limits: Limits) -> tuple[str, ...]:
        """Sets all limits, at any time; None lifts one. What could not be limited here, in words.

        Raises UsageError for what the kernel refuses, such as less memory than is in use.
        """
        refused = [
            self._set(CPU_QUOTA, "cpu", limits.cpus, lambda at: self._set_quota(at, limits)),
            self._set(CPU_SET, "cpuset", limits.cpu_set, lambda at: self._set_cpus(at, limits.cpu_set)),
            self._set(MEMORY, "memory", limits.memory_bytes, lambda at: self._set_memory(at, limits.memory_bytes)),
        ]
        return tuple(word for word in refused if word)

    def prefer(self) -> None:
        """Lets its processes go before those of other groups, as far as its quota goes: so that it gets its quota on a
        machine that is busy with other things. Nothing where CPU is not limited here."""
        if "cpu" in self._of:
            hierarchy, folder = self._of["cpu"]
            file, most = {1: ("cpu.shares", 262144), 2: ("cpu.weight", 10000)}[hierarchy.version]
            self._files.write(folder / file, str(most))

    @property
    def folders(self) -> list[Path]:
        """Its folders that are there: one in each tree, and none when it has been removed."""
        return [folder for folder in self._folders if self._files.is_there(folder)]

    def add(self, pid: int) -> None:
        """Moves a process into the group, with all its threads. Raises UsageError where that cannot be."""
        for folder in self._folders:
            try:
                self._files.write(folder / "cgroup.procs", str(pid))
            except OSError as error:
                raise UsageError(f"cgroup {folder}: process {pid} cannot be put into it: {error.strerror}") from None

    def pids(self) -> list[int]:
        """The processes that are in it, or in groups that they made below it."""
        found: set[int] = set()
        for folder in self._all_folders():
            with contextlib.suppress(OSError):  # gone
                found.update(map(int, self._files.read(folder / "cgroup.procs").split()))
        return sorted(found - {0})  # 0: of a PID namespace that we do not see

    def cpu_s(self) -> float:
        """CPU seconds of all that ever was in it. Raises UsageError where nothing counts them."""
        hierarchy, folder = self._counted("cpuacct")
        if hierarchy.version == 1:
            return int(self._files.read(folder / "cpuacct.usage")) / 1e9
        return self._fields(folder / "cpu.stat")["usage_usec"] / 1e6

    def throttled_s(self) -> float:
        """Seconds for which the quota kept it from running, summed over CPUs. Raises UsageError without a counter."""
        hierarchy, folder = self._counted("cpu")
        fields = self._fields(folder / "cpu.stat")
        return fields["throttled_time"] / 1e9 if hierarchy.version == 1 else fields["throttled_usec"] / 1e6

    def memory_peak_bytes(self) -> int | None:
        """The most memory that it used at once, file cache included; None where that is not counted."""
        name = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}
        return next((int(text) for text in self._texts("memory", name)), None)

    def out_of_memory_kills(self) -> int | None:
        """Processes that the kernel killed for the memory limit; None where that is not counted."""
        name = {1: "memory.oom_control", 2: "memory.events"}
        return next((_parse(text).get("oom_kill") for text in self._texts("memory", name)), None)

    def remove(self, limit_s: float = REMOVE_S, clock: Clock = SYSTEM) -> list[int]:
        """Ends what is in it (SIGKILL) and removes it; the processes that would not die within `limit_s`, or [].

        Raises TfhetError when the kernel keeps an empty group.
        """
        until = clock.monotonic() + limit_s
        while True:
            left = self._remove_folders()
            if left is None:
                return []
            pids = self.pids()
            if clock.monotonic() >= until:
                if pids:
                    return pids
                raise TfhetError(f"cgroup {self.name}: cannot be removed: {left}")
            for folder in self._folders:
                with contextlib.suppress(OSError):  # version 1, or a kernel before 5.14
                    self._files.write(folder / "cgroup.kill", "1")
            for pid in pids:
                if pid != os.getpid():
                    self._files.kill(pid)
            clock.sleep(_PAUSE_S)

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

    def _set(self, word: str, controller: str, value: object, write: Callable[[tuple[Hierarchy, Path]], None]) -> str:
        if controller not in self._of:
            return "" if value is None else word
        try:
            write(self._of[controller])
        except OSError as error:
            reason = f"{self._of[controller][1]}: {error.strerror}"
            if error.errno == errno.EBUSY and controller == "memory":
                reason += ": its processes use more"
            raise UsageError(f"{word} of {self.name} cannot be set to {value} ({reason})") from None
        return ""

    def _set_quota(self, at: tuple[Hierarchy, Path], limits: Limits) -> None:
        """With leave to use later, within the next period, what it could not use at once.

        Otherwise a thread that has to wait for its CPU loses what is left of the period: measured, with one thread on a
        busy machine, 13 to 17 % of a quota of 0.5 CPUs; with it less than 0.5 %.
        """
        hierarchy, folder = at
        quota = limits.quota()
        burst = folder / {1: "cpu.cfs_burst_us", 2: "cpu.max.burst"}[hierarchy.version]
        has_burst = self._files.is_there(burst)  # from kernel 5.14 on
        # One after the other, and every state between has to be valid too.
        if has_burst:
            self._files.write(burst, "0")
        if hierarchy.version == 2:
            self._files.write(folder / "cpu.max", "max" if quota is None else f"{quota[0]} {quota[1]}")
        else:
            self._files.write(folder / "cpu.cfs_quota_us", "-1")
            if quota is not None:
                self._files.write(folder / "cpu.cfs_period_us", str(quota[1]))
                self._files.write(folder / "cpu.cfs_quota_us", str(quota[0]))
        if has_burst and quota is not None:
            self._files.write(burst, str(quota[0]))

    def _set_cpus(self, at: tuple[Hierarchy, Path], cpus: Sequence[int] | None) -> None:
        hierarchy, folder = at
        text = ",".join(map(str, cpus or ()))
        if not text and hierarchy.version == 1:
            text = self._inherited(hierarchy, "cpus")
        self._files.write(folder / "cpuset.cpus", text)

    def _set_memory(self, at: tuple[Hierarchy, Path], memory_bytes: int | None) -> None:
        hierarchy, folder = at
        if hierarchy.version == 2:
            self._files.write(folder / "memory.max", "max" if memory_bytes is None else str(memory_bytes))
            if self._files.is_there(folder / "memory.swap.max"):
                self._files.write(folder / "memory.swap.max", "max" if memory_bytes is None else "0")
            return
        names = ["memory.memsw.limit_in_bytes", "memory.limit_in_bytes"]  # with swap, and without: never above it
        there = [name for name in names if self._files.is_there(folder / name)]
        for name in there:
            self._files.write(folder / name, "-1")
        if memory_bytes is not None:
            for name in reversed(there):
                self._files.write(folder / name, str(memory_bytes))

    def _inherited(self, hierarchy: Hierarchy, what: str) -> str:
        return self._files.read(hierarchy.top / f"cpuset.{what}").strip()

    def _counted(self, controller: str) -> tuple[Hierarchy, Path]:
        if controller not in self._of:
            raise UsageError(f"cgroup {self.name}: the controller {controller} is not mounted here, so nothing counts")
        return self._of[controller]

    def _texts(self, controller: str, names: dict[int, str]) -> list[str]:
        """The file of a controller, in its version, as a list of one; [] where there is none."""
        if controller not in self._of:
            return []
        hierarchy, folder = self._of[controller]
        try:
            return [self._files.read(folder / names[hierarchy.version])]
        except OSError:
            return []

    def _fields(self, path: Path) -> dict[str, int]:
        return _parse(self._files.read(path))


def _parse(text: str) -> dict[str, int]:
    """Lines of a name and a number."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}
