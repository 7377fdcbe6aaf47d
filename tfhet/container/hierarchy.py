"""The cgroup hierarchies of this machine: which controllers this process can use, in which version, and where.

Version 1 has a tree for each controller, or for some that are mounted together; version 2 has one tree for all that no
tree of version 1 has taken. Both may be there at once. Sources: the kernel's documentation, admin-guide/cgroup-v1 and
admin-guide/cgroup-v2.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tfhet.container.mountinfo import OURS, mounted

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
"""What a host's limits need. Version 2 counts CPU time (`cpuacct`) in every group, without a controller."""
REST = "tfhet.rest"
"""Where a container's own processes are moved to, in version 2: a group with groups below it has no processes."""
ROUNDS = 20


class Files:
    """What the kernel shows as folders and files."""

    def read(self, path: Path) -> str:
        return path.read_text(encoding="ascii")

    def write(self, path: Path, text: str) -> None:
        descriptor = os.open(path, os.O_WRONLY)  # not made when missing
        try:
            os.write(descriptor, text.encode("ascii") + b"\n")
        finally:
            os.close(descriptor)

    def is_there(self, path: Path) -> bool:
        return path.exists()

    def make(self, folder: Path) -> None:
        folder.mkdir()

    def remove(self, folder: Path) -> None:
        folder.rmdir()

    def kill(self, pid: int) -> None:
        """SIGKILL; nothing when the process is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)

    def folders(self, folder: Path) -> list[Path]:
        """The groups in a group; none when it is gone."""
        try:
            return [Path(entry) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []


FILES = Files()


@dataclass(frozen=True)
class Hierarchy:
    """One tree of groups, seen from the top of where it is mounted: in a container that is the container's group."""

    top: Path
    version: int
    controllers: tuple[str, ...]
    """Those of CONTROLLERS that it limits or counts."""

    def prepare(self, files: Files = FILES) -> None:
        """Makes the controllers available to groups directly below the top. Raises OSError."""
        if self.version == 1:
            return
        control = self.top / "cgroup.subtree_control"
        for controller in sorted({*self.controllers} - {"cpuacct"} - {*files.read(control).split()}):
            try:
                files.write(control, f"+{controller}")
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                self._move_processes(files)
                files.write(control, f"+{controller}")

    def _move_processes(self, files: Files) -> None:
        rest = self.top / REST
        with contextlib.suppress(FileExistsError):
            files.make(rest)
        for _ in range(ROUNDS):  # what forks meanwhile is there in the next
            there = files.read(self.top / "cgroup.procs").split()
            if not there:
                return
            for pid in there:
                with contextlib.suppress(OSError):  # it ended, or is the kernel's
                    files.write(rest / "cgroup.procs", pid)


def hierarchies(mounts: Path = OURS, files: Files = FILES) -> tuple[Hierarchy, ...]:
    """The trees that are mounted here and have one of CONTROLLERS, each controller in one of them only."""
    try:
        there = mounted(mounts)
    except OSError:  # no Linux
        return ()
    found: list[Hierarchy] = []
    unified: Path | None = None
    taken: set[str] = set()
    for each in there:
        if each.kind == "cgroup":
            mine = each.options.split(",")
            controllers = tuple(name for name in CONTROLLERS if name in mine and name not in taken)
            if controllers:
                taken.update(controllers)
                found.append(Hierarchy(Path(each.point), 1, controllers))
        elif each.kind == "cgroup2" and unified is None:
            unified = Path(each.point)
    if unified is not None:
        try:
            free = {*files.read(unified / "cgroup.controllers").split(), "cpuacct"} - taken
        except OSError:
            free = set()
        controllers = tuple(name for name in CONTROLLERS if name in free)
        if controllers:
            found.append(Hierarchy(unified, 2, controllers))
    return tuple(found)


def controllers(mounts: Path = OURS) -> dict[str, int]:
    """The version in which each controller is there for this process to make groups with; those that are not are left
    out: not mounted, mounted for reading only, or another user's."""
    return {
        controller: hierarchy.version
        for hierarchy in hierarchies(mounts)
        if os.access(hierarchy.top, os.W_OK)
        for controller in hierarchy.controllers
    }
