"""A container without Docker: a process in new network, mount, UTS, IPC and PID namespaces.

`python -m tfhet.container.container SPEC.json` enters new namespaces and forks. The fork is process 1 of the container:
it builds the root, an overlay of the machine's root; waits for its `eth0`, which `bridge.py` attaches; and becomes the
command. The first process passes signals on, and ends with the container's exit code. Everything inside dies with it.

System calls, not the tools of util-linux: `unshare --fork` forwards no signals before version 2.41, and `mount` splits
the options of an overlay at commas that are part of a path.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from tfhet.clock import SYSTEM
from tfhet.messages import ContainerFailureLine

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000  # linux/sched.h
_CLONE_NEWPID, _CLONE_NEWNET = 0x20000000, 0x40000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18  # linux/mount.h
_PR_SET_PDEATHSIG = 1
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NETWORK_S = 60.0
_OUTSIDE = ("/proc/", "/sys/", "/dev/", "/run/", "/tmp/", "/mnt/", "/media/")
"""Mounts of the machine below these are not carried into a container."""

OVERLAY, READ_ONLY, SHARED = "overlay", "read-only", "shared"


@dataclass(frozen=True)
class Mount:
    """A directory or file of the machine that a container sees."""

    source: str
    target: str
    kind: str = OVERLAY
    """OVERLAY: changes stay in the container, directories only; READ_ONLY; SHARED: changes reach the machine."""


@dataclass(frozen=True)
class Container:
    """The specification of one container; the process that becomes it reads it from a file."""

    name: str
    scratch: str
    """An empty directory for its changes, on a file system that can be the upper layer of an overlay."""
    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    mounts: Sequence[Mount] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Content by path. Files are readable for all, private keys only for their owner."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        path.chmod(0o600)  # the environment holds the job's secret

    @classmethod
    def read(cls, path: Path) -> Container:
        content = json.loads(path.read_text(encoding="utf-8"))
        mounts = tuple(Mount(**mount) for mount in content.pop("mounts"))
        return cls(**content, mounts=mounts)


_LIBC = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: Path | str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = [text.encode() or None for text in (source, str(target), kind, options)]
    result = _LIBC.mount(*words[:3], ctypes.c_ulong(flags), words[3])
    _check(result, f"mount {kind or 'bind'} {source} {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


class _Root:
    """Builds the root of a container at `at`."""

    def __init__(self, scratch: Path):
        self.at = scratch / "root"
        self._scratch = scratch
        self._count = 0

    def make(self, container: Container) -> None:
        _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        points = {mount.mountpoint for mount in psutil.disk_partitions(all=True)} - {"/"}
        self.at.mkdir()
        self._overlay("/", self.at)
        for point in sorted(points):  # the outer ones first
            if not f"{point}/".startswith((*_OUTSIDE, str(self._scratch))):
                self._carry(point)
        _mount("proc", self.at / "proc", "proc")
        _mount("sysfs", self.at / "sys", "sysfs")
        _mount("/dev", self.at / "dev", flags=_MS_BIND)
        _mount("devpts", self.at / "dev/pts", "devpts", options="newinstance,ptmxmode=0666,mode=0620")
        _mount("tmpfs", self.at / "dev/shm", "tmpfs", options="mode=1777")
        _mount("tmpfs", self.at / "run", "tmpfs", options="mode=0755")
        (self.at / "run/sshd").mkdir(mode=0o755)  # sshd does not start without
        temporary = self._scratch / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        self._bind(str(temporary), self.at / "tmp", read_only=False)
        for mount in container.mounts:
            self._add(mount)
        for path, content in container.files.items():
            self._write(path, content)

    def _overlay(self, lower: str, target: Path) -> None:
        upper, work = self._scratch / f"upper-{self._count}", self._scratch / f"work-{self._count}"
        self._count += 1
        upper.mkdir()
        work.mkdir()
        upper.chmod(0o755)
        options = f"lowerdir={_escaped(lower)},upperdir={_escaped(str(upper))},workdir={_escaped(str(work))}"
        _mount("overlay", target, "overlay", options=options)

    def _carry(self, point: str) -> None:
        target = self.at / point.lstrip("/")
        if not target.is_dir():
            return
        try:
            self._overlay(point, target)
        except OSError:  # a file system that cannot be the lower layer
            self._bind(point, target, read_only=True)

    def _add(self, mount: Mount) -> None:
        target = self._inside(mount.target)
        if Path(mount.source).is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():  # or the overlay would copy all of what is there
                target.touch()
        else:
            target.mkdir(parents=True, exist_ok=True)
        if mount.kind == OVERLAY:
            self._overlay(mount.source, target)
        else:
            self._bind(mount.source, target, read_only=mount.kind == READ_ONLY)

    def _bind(self, source: str, target: Path, *, read_only: bool) -> None:
        _mount(source, target, flags=_MS_BIND)
        if read_only:
            _mount("none", target, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY)

    def _write(self, path: str, content: str) -> None:
        file = self._inside(path)
        for folder in reversed(file.parents):
            if not folder.exists():
                folder.mkdir(mode=0o700)
        file.write_text(content, encoding="utf-8")
        file.chmod(0o600 if "PRIVATE KEY" in content else 0o644)

    def _inside(self, path: str) -> Path:
        """Path, seen from here, of a path in the container, with its symbolic links resolved in the container."""
        outside = os.open("/", os.O_RDONLY)
        os.chroot(self.at)
        try:
            return self.at / os.path.realpath(path).lstrip("/")
        finally:
            os.fchdir(outside)
            os.chroot(".")
            os.close(outside)


def _escaped(path: str) -> str:
    """A path as a mount option of an overlay."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def run(container: Container) -> int:
    """Runs a container to its end. Returns its exit code, negative for a signal."""
    _check(_LIBC.unshare(_CLONE_NEWNET | _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID), "unshare")
    alive, ours = os.pipe()
    # The kernel drops signals for a process 1 without a handler; blocked ones wait until the command has its own.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _become(container, alive)
    os.close(alive)
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _become(container: Container, alive: int) -> None:
    """Turns process 1 into the command; never returns. The command starts with `_PASSED_ON` blocked."""
    try:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.set_blocking(alive, False)
        try:
            if os.read(alive, 1) == b"":  # the other end is closed: the parent died before we could ask
                os._exit(1)
        except BlockingIOError:
            pass
        os.setsid()  # a signal to the group outside is not one to all inside
        socket.sethostname(container.name)
        root = _Root(Path(container.scratch))
        root.make(container)
        os.chroot(root.at)
        os.chdir(container.directory)
        _wait_for_network()
        os.execvpe(container.command[0], list(container.command), dict(container.environment))
    except BaseException as error:  # noqa: BLE001 - it reports the reason and ends
        why = error.strerror if isinstance(error, OSError) and error.filename is None else error
        print(f"[{container.name}] {ContainerFailureLine(str(why))}", file=sys.stderr, flush=True)
        os._exit(1)


def _wait_for_network() -> None:
    state, until = Path("/sys/class/net/eth0/operstate"), SYSTEM.monotonic() + _NETWORK_S
    while not state.exists() or state.read_text(encoding="ascii") != "up\n":
        if pending := signal.sigpending():
            raise InterruptedError(f"stopped by {signal.Signals(min(pending)).name}")
        if SYSTEM.monotonic() > until:
            raise TimeoutError(f"no network interface eth0 after {_NETWORK_S:g} s")
        SYSTEM.sleep(0.01)


def main(argv: Sequence[str]) -> None:
    """Runs the container in the file `argv[0]`, and ends this process with its exit code or signal."""
    code = run(Container.read(Path(argv[0])))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
