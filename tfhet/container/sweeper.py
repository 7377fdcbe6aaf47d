"""The sweeper removes what simulators left that died without cleaning up (SIGKILL), when the next one starts.

A simulator claims a tag, by a lock on a file of that name, which the kernel drops when its process dies. All that could
outlive the simulator bears the tag: cgroups are called `tfhet-TAG-HOST`, and folders are registered in the file. Only
what belongs to a file without a living owner is removed, so simulators on one machine leave each other alone.

    for line in sweep():
        print(line)
    with claim() as owner:
        owner.register(folder)
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet.container.cgroup import Cgroup
from tfhet.container.hierarchy import Hierarchy, hierarchies
from tfhet.errors import TfhetError, UsageError

SYSTEM_FOLDER = Path("/run/tfhet")
LETTERS = "abcdefghijkmnopqrstuvwxyz23456789"
TAG_LENGTH = 4
"""Characters of a tag, which is part of the names of network devices: 15 characters at most."""
END_S = 10.0
"""Seconds that a killed process may take to die."""
TRIES = 100
_UNMOUNT_S = 30.0


class Owner:
    """The holder of a tag: made by `claim`. Also a context, which releases the tag at its end."""

    def __init__(self, tag: str, lock: Path, descriptor: int):
        self.tag = tag
        """Lower case letters and digits; no other owner on this machine has it."""
        self.lock = lock
        self._descriptor: int | None = descriptor

    def register(self, path: Path) -> None:
        """Lets the next sweep remove a folder with all that is in it, should this process die.

        Raises UsageError for what cannot be a folder of a simulator's own.
        """
        path = path.resolve()
        if not path.is_dir() or len(path.parts) < 3 or os.path.ismount(path):
            raise UsageError(f"{path}: only an existing folder of one's own, at least two deep, can be registered")
        found = path.stat()
        line = json.dumps({"folder": str(path), "device": found.st_dev, "inode": found.st_ino})
        assert self._descriptor is not None
        os.write(self._descriptor, line.encode("ascii") + b"\n")

    def release(self, *, is_clean: bool = True) -> None:
        """Gives the tag back. is_clean: all that was made under it is gone, so that no sweep has to look for it."""
        if self._descriptor is not None:
            if is_clean:
                self.lock.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def claim(folder: Path | None = None) -> Owner:
    """A new tag. folder: where the locks are, the same for all that shall leave each other alone; None: the machine's.

    Raises UsageError where no lock can be had.
    """
    folder = _lock_folder() if folder is None else folder
    for _ in range(TRIES):
        tag = "".join(secrets.choice(LETTERS) for _ in range(TAG_LENGTH))
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
    """Removes what dead simulators have left: processes, cgroups, mounts, folders.

    Returns what was done, and what could not be done, in lines.
    """
    folder = _lock_folder() if folder is None else folder
    lines: list[str] = []
    for path in sorted(folder.glob("*.lock")):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:  # gone, or another user's
            continue
        try:
            if _locked(descriptor, path):
                remains = _Remains(path.stem, tuple(_registered(path)))
                lines += remains.remove(hierarchies())
                if not remains.is_left:
                    path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return lines


@dataclass(frozen=True)
class _Folder:
    path: Path
    device: int
    inode: int

    @property
    def is_there(self) -> bool:
        """Whether it is still the folder that was registered."""
        try:
            found = self.path.stat(follow_symlinks=False)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)


class _Remains:
    """What one dead owner has left."""

    def __init__(self, tag: str, folders: Sequence[_Folder]):
        self.is_left = False
        """Whether something could not be removed, so that the next sweep has to try again."""
        self._tag = tag
        self._folders = [folder for folder in folders if folder.is_there]

    def remove(self, trees: Sequence[Hierarchy]) -> list[str]:
        # Processes first: what they hold can be removed afterwards.
        lines = [*self._processes(), *self._cgroups(trees)]
        for folder in self._folders:
            lines += self._folder(folder.path)
        return [f"left by a simulator that died ({self._tag}): {line}" for line in lines]

    def _processes(self) -> Iterator[str]:
        """Ends processes that see something mounted from a registered folder: containers outside any cgroup."""
        texts = [re.escape(str(folder.path).replace(" ", "\\040")) for folder in self._folders]
        if not texts:
            return
        of_ours = re.compile(rf"[ =:,](?:{'|'.join(texts)})(?=[/ ,:]|$)")
        seen = _mounts("self")  # no sign of a container: every namespace begins as a copy
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError):  # gone, or another user's
                if any(of_ours.search(line) for line in _mounts(process.pid) - seen):
                    found.append(process)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(found, timeout=END_S)
        for process in found:
            ended = _has_ended(process)
            self.is_left |= not ended
            yield f"process {process.pid} " + ("killed" if ended else "does not die")

    def _cgroups(self, trees: Sequence[Hierarchy]) -> Iterator[str]:
        names = {path.name for tree in trees for path in tree.top.glob(f"tfhet-{self._tag}-*") if path.is_dir()}
        for name in sorted(names):
            cgroup = Cgroup(name, trees)
            killed = len(cgroup.pids())
            try:
                left = cgroup.remove(END_S)
            except TfhetError as error:
                self.is_left = True
                yield str(error)
                continue
            self.is_left |= bool(left)
            yield f"cgroup {name}: " + (
                f"processes {', '.join(map(str, left))} do not die" if left else f"removed, {killed} processes killed"
            )

    def _folder(self, path: Path) -> Iterator[str]:
        for mount in sorted(_mounted_below(path), reverse=True):  # the deepest first
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["umount", "-l", mount], capture_output=True, timeout=_UNMOUNT_S)
        if left := _mounted_below(path):
            self.is_left = True
            yield f"folder {path}: not removed, {left[0]} is mounted in it"
            return
        shutil.rmtree(path, ignore_errors=True)
        self.is_left |= path.exists()
        yield f"folder {path}: " + ("cannot be removed" if path.exists() else "removed")


def _has_ended(process: psutil.Process) -> bool:
    """Whether it is gone, or waits for its parent to ask for its exit code."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _mounts(pid: int | str) -> set[str]:
    """Device, root and options of each mount that a process sees, without the place. Source: proc_pid_mountinfo(5)."""
    lines = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return {" ".join([*line.split()[2:4], line.partition(" - ")[2]]) for line in lines}


def _mounted_below(path: Path) -> list[str]:
    points = [Path(mount.mountpoint) for mount in psutil.disk_partitions(all=True)]
    return [str(point) for point in points if point.is_relative_to(path)]


def _registered(lock: Path) -> Iterator[_Folder]:
    for line in lock.read_text(encoding="ascii", errors="replace").splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # the last line of one that died writing it
            row = json.loads(line)
            yield _Folder(Path(row["folder"]), int(row["device"]), int(row["inode"]))


def _locked(descriptor: int, path: Path) -> bool:
    """Takes the lock. Returns whether it was free, and the file is still the one at the path."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _lock_folder() -> Path:
    """A folder that this user's simulators share, and no other user can write to."""
    user = os.getuid()
    for folder in (SYSTEM_FOLDER, Path(tempfile.gettempdir()) / f".tfhet-{user}"):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.stat(follow_symlinks=False)
            if found.st_uid == user and found.st_mode & 0o022 == 0 and os.access(folder, os.W_OK):
                return folder
    raise UsageError(f"no folder for the locks of simulators: {SYSTEM_FOLDER} and {tempfile.gettempdir()} are not ours")
