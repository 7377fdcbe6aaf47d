"""What simulators leave that died without cleaning up (SIGKILL), found and removed when the next one starts.

A simulator claims a tag, by a lock on a file of that name which the kernel drops when its process dies. All that could
outlive it bears the tag: cgroups are called `tfhet-TAG-HOST`, and folders are written into the file. Only what belongs
to a file that nobody has locked is removed, so that simulators on one machine leave each other alone.
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
from types import TracebackType

import psutil

from tfhet.container.cgroup import Cgroup
from tfhet.container.hierarchy import Hierarchy, hierarchies
from tfhet.container.mountinfo import mounted
from tfhet.errors import TfhetError, UsageError

SYSTEM_FOLDER = Path("/run/tfhet")
LETTERS = "abcdefghijkmnopqrstuvwxyz23456789"
TAG_LENGTH = 4
"""Names of network devices hold 15 characters, and most of them are others'."""
END_S = 10.0
"""How long what is killed may take to die."""
TRIES = 100
_UNMOUNT_S = 30.0


class Owner:
    """Whoever holds a tag: made by `claim`. Also a context, which is released at its end."""

    def __init__(self, tag: str, lock: Path, descriptor: int):
        self.tag = tag
        """Lower case letters and digits, no other owner's on this machine."""
        self.lock = lock
        self._descriptor: int | None = descriptor

    def register(self, path: Path) -> None:
        """A folder that may be removed with all that is in it, should this process die. Raises UsageError where that
        could be no folder of a simulator's own."""
        path = path.resolve()
        if not path.is_dir() or len(path.parts) < 3 or os.path.ismount(path):
            raise UsageError(f"{path}: only an existing folder of one's own, at least two deep, can be registered")
        found = path.stat()
        line = json.dumps({"folder": str(path), "device": found.st_dev, "inode": found.st_ino})
        assert self._descriptor is not None
        os.write(self._descriptor, line.encode("ascii") + b"\n")

    def release(self, *, is_clean: bool = True) -> None:
        """Gives the tag back. Unless all that was made under it is gone, the next sweep has to look for it."""
        if self._descriptor is not None:
            if is_clean:
                self.lock.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Owner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def claim(folder: Path | None = None) -> Owner:
    """A new tag. folder: where the locks are, the same for all who shall leave each other alone; None: the machine's.

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


def sweep(
    folder: Path | None = None, *, trees: Sequence[Hierarchy] | None = None, proc: Path = Path("/proc")
) -> list[str]:
    """Removes what dead simulators have left: processes, cgroups, mounts, folders. What was done, and what could not
    be, in lines."""
    folder = _lock_folder() if folder is None else folder
    lines: list[str] = []
    for path in sorted(folder.glob("*.lock")):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:  # gone, or another user's
            continue
        try:
            if _locked(descriptor, path):
                remains = _Remains(path.stem, tuple(_registered(path)), proc)
                lines += remains.remove(hierarchies() if trees is None else trees)
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

    def __init__(self, tag: str, folders: Sequence[_Folder], proc: Path):
        self.is_left = False
        """Whether something could not be removed, so that the next sweep has to try again."""
        self._tag = tag
        self._folders = [folder for folder in folders if folder.is_there]
        self._proc = proc

    def remove(self, trees: Sequence[Hierarchy]) -> list[str]:
        # Processes first: what they hold can be removed afterwards.
        lines = [*self._processes(), *self._cgroups(trees)]
        for folder in self._folders:
            lines += self._folder(folder.path)
        return [f"left by a simulator that died ({self._tag}): {line}" for line in lines]

    def _processes(self) -> Iterator[str]:
        """Those with something mounted from a registered folder that we do not see: containers outside any cgroup."""
        texts = [re.escape(str(folder.path)) for folder in self._folders]
        if not texts:
            return
        of_ours = re.compile(rf"[ =:,](?:{'|'.join(texts)})(?=[/ ,:]|$)")
        seen = self._mounts("self")
        found = [process for process in psutil.process_iter() if self._uses(process.pid, of_ours, seen)]
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(found, timeout=END_S)
        for process in found:
            does_not_die = process in alive and not _has_ended(process)
            self.is_left |= does_not_die
            yield f"process {process.pid} " + ("does not die" if does_not_die else "killed")

    def _uses(self, pid: int, of_ours: re.Pattern[str], seen: set[str]) -> bool:
        try:
            theirs = self._mounts(str(pid))
        except OSError:  # gone, or another user's
            return False
        # What we see too is no sign: every namespace begins as a copy.
        return any(of_ours.search(line) for line in theirs - seen)

    def _mounts(self, who: str) -> set[str]:
        return {each.what for each in mounted(self._proc / who / "mountinfo")}

    def _cgroups(self, trees: Sequence[Hierarchy]) -> Iterator[str]:
        names = {path.name for tree in trees for path in tree.top.glob(f"tfhet-{self._tag}-*") if path.is_dir()}
        for name in sorted(names):
            cgroup = Cgroup(name, [(tree, tree.top / name) for tree in trees])
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
        for mount in sorted(_mounted_below(path, self._proc), reverse=True):  # the deepest first
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["umount", "-l", mount], capture_output=True, timeout=_UNMOUNT_S)
        if left := _mounted_below(path, self._proc):
            self.is_left = True
            yield f"folder {path}: not removed, {left[0]} is mounted in it"
            return
        shutil.rmtree(path, ignore_errors=True)
        self.is_left |= path.exists()
        yield f"folder {path}: " + ("cannot be removed" if path.exists() else "removed")


def _has_ended(process: psutil.Process) -> bool:
    """Also when nobody has asked for its exit code yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _mounted_below(path: Path, proc: Path) -> list[str]:
    points = [each.point for each in mounted(proc / "self" / "mountinfo")]
    return [point for point in points if Path(point) == path or path in Path(point).parents]


def _registered(lock: Path) -> Iterator[_Folder]:
    for line in lock.read_text(encoding="ascii", errors="replace").splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # the last line of one that died writing it
            row = json.loads(line)
            yield _Folder(Path(row["folder"]), int(row["device"]), int(row["inode"]))


def _locked(descriptor: int, path: Path) -> bool:
    """Takes the lock if it is free; whether it was, and the file is still the one at the path."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _lock_folder() -> Path:
    """One that this user's simulators share, and nobody else can write to."""
    user = os.getuid()
    for folder in (SYSTEM_FOLDER, Path(f"/run/user/{user}/tfhet"), Path(tempfile.gettempdir()) / f".tfhet-{user}"):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.stat(follow_symlinks=False)
            if found.st_uid == user and found.st_mode & 0o022 == 0 and os.access(folder, os.W_OK):
                return folder
    raise UsageError(f"no folder for the locks of simulators: {SYSTEM_FOLDER} and {tempfile.gettempdir()} are not ours")
