"""Removes the cgroups and folders of simulators that died without cleaning up (SIGKILL), when the next one starts.

A simulator claims a tag: it locks a file of that name, and the kernel releases the lock when the process dies. All that
could outlive it has the tag: cgroups are called `tfhet-TAG-HOST`, and folders are registered in the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from tfhet.cluster import own_folder
from tfhet.container.cgroup import Cgroup
from tfhet.container.hierarchy import hierarchies
from tfhet.container.netns import run
from tfhet.errors import TfhetError, UsageError

SYSTEM_FOLDER = Path("/run/tfhet")
TRIES = 100


class Owner(contextlib.AbstractContextManager["Owner"]):
    """The holder of a tag, made by `claim`. As a context manager it releases the tag at the end."""

    def __init__(self, tag: str, lock: Path, descriptor: int):
        self.tag = tag
        """Lower case letters and digits; no other owner on this machine has it."""
        self.lock = lock
        self._descriptor = descriptor

    def register(self, path: Path) -> None:
        """Lets the next sweep remove a folder of this simulator's own. Raises UsageError for any other path."""
        path = path.resolve()
        if not path.is_dir() or len(path.parts) < 3 or os.path.ismount(path):
            raise UsageError(f"{path}: only an existing folder of one's own, at least two deep, can be registered")
        found = path.stat()
        line = json.dumps({"folder": str(path), "device": found.st_dev, "inode": found.st_ino})
        os.write(self._descriptor, line.encode("ascii") + b"\n")

    def release(self, *, is_clean: bool = True) -> None:
        """Releases the tag. is_clean: everything with the tag is removed, so no sweep has to look for it."""
        if is_clean:
            self.lock.unlink(missing_ok=True)
        os.close(self._descriptor)

    def __exit__(self, *_: object) -> None:
        self.release()


def claim(folder: Path | None = None) -> Owner:
    """Claims a new tag. folder: of the locks (None: the usual one). Raises UsageError if no lock can be made."""
    folder = _lock_folder() if folder is None else folder
    for _ in range(TRIES):
        # Short, since it is part of the names of network devices, of 15 characters at most.
        tag = "".join(secrets.choice("abcdefghijkmnopqrstuvwxyz23456789") for _ in range(4))
        path = folder / f"{tag}.lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"{path}: a simulator's lock cannot be made: {error.strerror}") from None
        if _locked(descriptor, path):
            return Owner(tag, path, descriptor)
        os.close(descriptor)  # a sweeper was faster, found nothing of ours, and removed the file
    raise UsageError(f"{folder}: none of {TRIES} tags was free; remove the .lock files of simulators that are gone")


def sweep(folder: Path | None = None) -> list[str]:
    """Removes the cgroups with their processes, the mounts and the folders of dead simulators. Returns one line for
    each removal or failure; the next sweep tries failures again."""
    folder = _lock_folder() if folder is None else folder
    lines: list[str] = []
    for path in sorted(folder.glob("*.lock")):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:  # gone, or another user's
            continue
        try:
            if _locked(descriptor, path):
                # Cgroups first: their processes use the rest.
                results = [*_cgroups(path.stem), *map(_folder, _registered(path))]
                lines += [f"left by a simulator that died ({path.stem}): {line}" for line, _ in results]
                if all(is_gone for _, is_gone in results):
                    path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return lines


Result = tuple[str, bool]
"""A line about one removal, and whether it succeeded."""


def _cgroups(tag: str) -> Iterator[Result]:
    trees = hierarchies()
    for name in sorted({path.name for tree in trees for path in tree.top.glob(f"tfhet-{tag}-*") if path.is_dir()}):
        cgroup = Cgroup(name, trees)
        killed = len(cgroup.pids())
        try:
            left = cgroup.remove()
        except TfhetError as error:
            yield str(error), False
            continue
        done = f"processes {', '.join(map(str, left))} do not die" if left else f"removed, {killed} processes killed"
        yield f"cgroup {name}: {done}", not left


def _folder(path: Path) -> Result:
    for mount in sorted(_mounted_below(path), reverse=True):  # the deepest first
        with contextlib.suppress(TfhetError):
            run(["umount", "-l", mount])
    if left := _mounted_below(path):
        return f"folder {path}: not removed, {left[0]} is mounted in it", False
    shutil.rmtree(path, ignore_errors=True)
    return f"folder {path}: " + ("cannot be removed" if path.exists() else "removed"), not path.exists()


def _mounted_below(path: Path) -> list[str]:
    points = [Path(mount.mountpoint) for mount in psutil.disk_partitions(all=True)]
    return [str(point) for point in points if point.is_relative_to(path)]


def _registered(lock: Path) -> list[Path]:
    """The folders in a lock file that are still the registered ones."""
    folders = []
    for line in lock.read_text(encoding="ascii", errors="replace").splitlines():
        with contextlib.suppress(ValueError, OSError):  # an incomplete line; a folder that is gone
            row = json.loads(line)
            found = os.stat(row["folder"], follow_symlinks=False)
            if (found.st_dev, found.st_ino) == (row["device"], row["inode"]):
                folders.append(Path(row["folder"]))
    return folders


def _locked(descriptor: int, path: Path) -> bool:
    """Takes the lock. Returns whether it was free, and the file is still at the path."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _lock_folder() -> Path:
    """A folder that the simulators of this user share, and to which no other user can write."""
    user = os.getuid()
    for folder in (SYSTEM_FOLDER, Path(tempfile.gettempdir()) / f".tfhet-{user}"):
        with contextlib.suppress(OSError):
            if os.access(own_folder(folder), os.W_OK) and folder.stat().st_uid == user:
                return folder
    raise UsageError(f"no folder for the locks of simulators: {SYSTEM_FOLDER} and {tempfile.gettempdir()} are not ours")
