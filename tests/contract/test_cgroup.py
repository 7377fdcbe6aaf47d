"""Contract of a control group: on this machine's kernel in both versions, and on a fake kernel with the rules of
version 2 (admin-guide/cgroup-v2)."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfhet.container import Limits
from tfhet.container.cgroup import Cgroup
from tfhet.container.hierarchy import CONTROLLERS, Files, Hierarchy, controllers, hierarchies
from tfhet.errors import UsageError
from tfhet.units import MIB

TOP = Path("/fake")
_NAMES = (f"tfhet-test-{os.getpid()}-{number}" for number in itertools.count())


def refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Fake(Files):
    """The kernel's folders and files in version 2, as far as Cgroup uses them. Processes are numbers."""

    version = 2
    trees = (Hierarchy(TOP, 2, CONTROLLERS),)

    def __init__(self, has_own_processes: bool = False, read_only: bool = False):
        self.read_only = read_only
        self.own = [1, 2] if has_own_processes else []
        self.inside: dict[Path, list[int]] = {TOP: list(self.own)}
        self.numbers = itertools.count(100)
        self.files = {TOP / "cgroup.subtree_control": "pids\n"}

    def start(self) -> int:
        return next(self.numbers)

    def lives(self, pid: int) -> bool:
        return any(pid in pids for pids in self.inside.values())

    def close(self) -> None:
        assert set(self.inside) - {TOP / "tfhet.rest"} == {TOP}

    def read(self, path: Path) -> str:
        if path.name == "cgroup.procs":
            return "".join(f"{pid}\n" for pid in self.inside[path.parent])
        if path not in self.files:
            raise refused(errno.ENOENT)
        return self.files[path]

    def exists(self, path: Path) -> bool:
        return path in self.files or path in self.inside

    def mkdir(self, folder: Path) -> None:
        if self.read_only:
            raise refused(errno.EROFS)
        if folder in self.inside:
            raise FileExistsError(errno.EEXIST, "File exists")
        self.inside[folder] = []
        new = {"": {"cpu.stat": "usage_usec 0\n", "cgroup.kill": ""}, **CONTROLLER_FILES}
        for name in ("", *self.files[TOP / "cgroup.subtree_control"].split()):
            self.files.update({folder / file: text for file, text in new.get(name, {}).items()})

    def write(self, path: Path, text: str) -> None:
        folder = path.parent
        if path.name != "cgroup.procs" and path not in self.files:
            raise refused(errno.ENOENT)
        if path.name == "cgroup.procs":
            if folder not in self.inside:
                raise refused(errno.ENOENT)
            self.kill(int(text))  # it is in one group only
            self.inside[folder].append(int(text))
        elif path.name == "cgroup.kill":
            self.inside[folder].clear()
        elif path.name == "cgroup.subtree_control":
            if self.inside[folder]:  # no internal processes
                raise refused(errno.EBUSY)
            self.files[path] += text.removeprefix("+") + "\n"
        else:
            before, self.files[path] = self.files[path], text
            if not self._is_valid(folder):
                self.files[path] = before
                raise refused(errno.EINVAL)

    def _is_valid(self, folder: Path) -> bool:
        text = {path.name: text for path, text in self.files.items() if path.parent == folder}
        quota, _, period = text.get("cpu.max", "max 100000").partition(" ")
        cpus = [int(cpu) for cpu in text.get("cpuset.cpus", "").split(",") if cpu.strip().isdigit()]
        return (
            (quota == "max" or int(quota) >= 1000)
            and int(text.get("cpu.max.burst", "0")) <= (0 if quota == "max" else int(quota))
            and 1000 <= int(period or 100000) <= 1000000
            and all(cpu < 4 for cpu in cpus)
        )

    def rmdir(self, folder: Path) -> None:
        if folder not in self.inside:
            raise refused(errno.ENOENT)
        if self.inside[folder] or self.folders(folder):
            raise refused(errno.EBUSY)
        del self.inside[folder]
        self.files = {path: text for path, text in self.files.items() if path.parent != folder}

    def folders(self, folder: Path) -> list[Path]:
        return [other for other in self.inside if other.parent == folder]

    def kill(self, pid: int) -> None:
        for pids in self.inside.values():
            if pid in pids:
                pids.remove(pid)


CONTROLLER_FILES = {
    "cpu": {"cpu.max": "max 100000", "cpu.max.burst": "0"},
    "cpuset": {"cpuset.cpus": "\n"},
    "memory": {
        "memory.max": "max",
        "memory.swap.max": "max",
        "memory.peak": "0\n",
        "memory.events": "max 0\noom 0\noom_kill 0\n",
    },
}


class Real(Files):
    """This machine's kernel; its processes wait for a line of input."""

    def __init__(self, version: int):
        self.version = version
        self.trees = tuple(tree for tree in hierarchies() if tree.version == version)
        if version == 2 and not self.trees:  # all controllers are in version 1; version 2 still counts, and groups
            self.trees = tuple(Hierarchy(top, 2, ("cpuacct",)) for top in unified())
        self._children: list[subprocess.Popen[bytes]] = []

    def child(self, script: str = "pass") -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", f"input(); {script}; input()"]
        self._children.append(subprocess.Popen(words, stdin=subprocess.PIPE))
        return self._children[-1]

    def start(self) -> int:
        return self.child().pid

    def lives(self, pid: int) -> bool:
        (child,) = (child for child in self._children if child.pid == pid)
        try:
            child.wait(10 if child.poll() is None else 0)
        except subprocess.TimeoutExpired:
            return True
        return False

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()
            assert child.stdin is not None
            child.stdin.close()


def unified() -> list[Path]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [Path(line.split()[4]) for line in lines if " - cgroup2 " in line][:1]


@pytest.fixture(params=["fake", "version 1", "version 2"])
def kernel(request: pytest.FixtureRequest) -> Iterator[Fake | Real]:
    made: Fake | Real = Fake() if request.param == "fake" else real(int(request.param[-1]))
    yield made
    made.close()


def real(version: int) -> Real:
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("needs root on Linux")
    made = Real(version)
    if not made.trees or not all(os.access(tree.top, os.W_OK) for tree in made.trees):
        pytest.skip(f"no cgroup of version {version} is mounted here for writing")
    return made


@pytest.fixture
def group(kernel: Fake | Real) -> Iterator[Cgroup]:
    made = Cgroup.create(next(_NAMES), kernel.trees, kernel)
    yield made
    assert made.remove() == []
    assert not any(kernel.exists(tree.top / made.name) for tree in kernel.trees)


def test_group_holds_and_ends_its_processes(kernel, group):
    has_memory = any("memory" in tree.controllers for tree in kernel.trees)
    assert group.pids() == [] and group.cpu_s() == 0.0
    assert group.out_of_memory_kills() == (0 if has_memory else None)
    assert (group.memory_peak_bytes() is not None) == has_memory
    pids = sorted([kernel.start(), kernel.start()])
    for pid in pids:
        group.add(pid)
    assert group.pids() == pids
    assert group.remove() == []
    assert not any(map(kernel.lives, pids))
    assert not any(kernel.exists(tree.top / group.name) for tree in kernel.trees)


def test_subgroup_is_removed_with_its_processes(kernel, group):
    pid = kernel.start()
    for tree in kernel.trees:
        kernel.mkdir(folder := tree.top / group.name / "below")
        if "cpuset" in tree.controllers and tree.version == 1:
            for name in ("cpuset.cpus", "cpuset.mems"):
                kernel.write(folder / name, kernel.read(folder.parent / name).strip())
        kernel.write(folder / "cgroup.procs", str(pid))
    assert group.pids() == [pid]
    assert group.remove() == []
    assert not kernel.lives(pid)


def test_name_belongs_to_one_group(kernel, group):
    with pytest.raises(UsageError):
        Cgroup.create(group.name, kernel.trees, kernel)
    assert all(kernel.exists(tree.top / group.name) for tree in kernel.trees)


def test_ended_process_is_refused(kernel, group):
    if isinstance(kernel, Fake):
        pytest.skip("processes of the fake kernel do not end")
    child = kernel.child()
    child.kill()
    child.wait()
    with pytest.raises(UsageError, match=str(child.pid)):
        group.add(child.pid)


FILES = {
    1: {
        "quota": "cpu/cpu.cfs_quota_us",
        "period": "cpu/cpu.cfs_period_us",
        "burst": "cpu/cpu.cfs_burst_us",
        "cpus": "cpuset/cpuset.cpus",
        "memory": "memory/memory.limit_in_bytes",
    },
    2: {
        "quota": "cpu/cpu.max",
        "burst": "cpu/cpu.max.burst",
        "cpus": "cpuset/cpuset.cpus",
        "memory": "memory/memory.max",
    },
}
"""Controller and file of each limit, by version."""


def state_of(kernel: Fake | Real, group: Cgroup) -> dict[str, str]:
    """Content of the files of limits that the group has."""
    found = {}
    for tree in kernel.trees:
        for name, place in FILES[tree.version].items():
            controller, file = place.split("/")
            path = tree.top / group.name / file
            if controller in tree.controllers and kernel.exists(path):
                found[name] = kernel.read(path).strip()
    return found


def test_limits_are_set_changed_and_lifted(kernel, group):
    free = state_of(kernel, group)
    available = {name for tree in kernel.trees for name in tree.controllers}
    words = {"cpu": "CPU quota", "cpuset": "CPU set", "memory": "memory"}
    for limits in (Limits(0.05, (0,), 64 * MIB), Limits(0.5, (0,), 256 * MIB)):
        assert group.limit(limits) == tuple(word for name, word in words.items() if name not in available)
        us, period_us = map(str, limits.quota() or ())
        version = {tree.version for tree in kernel.trees if "cpu" in tree.controllers}
        expected = {"quota": us if version == {1} else f"{us} {period_us}", "period": period_us, "burst": us}
        expected |= {"cpus": "0", "memory": str(limits.memory_bytes)}
        assert state_of(kernel, group) == {name: expected[name] for name in free}
    assert group.limit(Limits()) == ()
    lifted = {name: text.split()[:1] for name, text in state_of(kernel, group).items() if name != "period"}
    assert lifted == {name: text.split()[:1] for name, text in free.items() if name != "period"}


def test_limit_that_the_kernel_refuses(kernel, group):
    if not any("cpuset" in tree.controllers for tree in kernel.trees):
        pytest.skip("the kernel has no CPU sets in this version")
    with pytest.raises(UsageError, match=f"CPU set of {group.name}"):
        group.limit(Limits(cpu_set=(900,)))


def test_process_beyond_the_memory_limit_is_killed():
    machine = real(1 if {"memory": 1}.items() <= controllers().items() else 2)
    if "memory" not in controllers():
        pytest.skip("no memory controller is mounted here for writing")
    group = Cgroup.create(next(_NAMES), hierarchies())
    try:
        group.limit(Limits(memory_bytes=64 * MIB))
        child = machine.child("bytearray(400 << 20)")
        group.add(child.pid)
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.wait(60) == -9
        assert group.out_of_memory_kills() == 1
        assert (group.memory_peak_bytes() or 0) > 32 * MIB
    finally:
        group.remove()
        machine.close()


def test_own_processes_of_a_container_are_moved():
    kernel = Fake(has_own_processes=True)
    group = Cgroup.create("tfhet-abcd-algo-1", kernel.trees, kernel)
    assert kernel.inside[TOP] == []
    assert kernel.inside[TOP / "tfhet.rest"] == kernel.own
    assert group.limit(Limits(0.5, (1,), 64 * MIB)) == ()
    assert group.remove() == []


def test_group_that_cannot_be_made_leaves_nothing():
    kernel = Fake(read_only=True)
    with pytest.raises(UsageError, match="Read-only file system"):
        Cgroup.create("tfhet-a", kernel.trees, kernel)
    kernel.close()
