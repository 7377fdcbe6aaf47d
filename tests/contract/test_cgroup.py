"""Contract of a control group, in both versions: on this machine's kernel as far as it has them, and on one that is
played, whose rules are those of the kernel's documentation (admin-guide/cgroup-v1 and cgroup-v2)."""

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

TOP = Path("/played")
_NAMES = (f"tfhet-test-{os.getpid()}-{number}" for number in itertools.count())


def refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Played(Files):
    """The kernel's folders and files, as far as Cgroup uses them. Processes are numbers."""

    def __init__(self, version: int, has_own_processes: bool = False, read_only: Path | None = None):
        self.version = version
        self.read_only = read_only
        self.files: dict[Path, str] = {}
        self.own = [1, 2] if has_own_processes else []
        self.inside: dict[Path, list[int]] = {}
        self.numbers = itertools.count(100)
        tops = [TOP] if version == 2 else [TOP / name for name in CONTROLLERS]
        for top in tops:
            self.inside[top] = list(self.own)
            self.files[top / "cpuset.cpus"], self.files[top / "cpuset.mems"] = "0-3\n", "0\n"
        if version == 2:
            self.files[TOP / "cgroup.controllers"] = "cpuset cpu io memory pids\n"
            self.files[TOP / "cgroup.subtree_control"] = "pids\n"
            self.trees = (Hierarchy(TOP, 2, CONTROLLERS),)
        else:
            self.trees = tuple(Hierarchy(TOP / name, 1, (name,)) for name in CONTROLLERS)

    def start(self) -> int:
        return next(self.numbers)

    def lives(self, pid: int) -> bool:
        return any(pid in pids for pids in self.inside.values())

    def close(self) -> None:
        assert set(self.inside) - {TOP / "tfhet.rest"} == {tree.top for tree in self.trees}

    def read(self, path: Path) -> str:
        if path.name == "cgroup.procs":
            return "".join(f"{pid}\n" for pid in self.inside[path.parent])
        if path not in self.files:
            raise refused(errno.ENOENT)
        return self.files[path]

    def is_there(self, path: Path) -> bool:
        return path in self.files or path in self.inside

    def make(self, folder: Path) -> None:
        if folder.parent == self.read_only:
            raise refused(errno.EROFS)
        if folder in self.inside:
            raise FileExistsError(errno.EEXIST, "File exists")
        self.inside[folder] = []
        names = {folder.parts[2]}
        if self.version == 2:
            names = set(self.files[TOP / "cgroup.subtree_control"].split())
            self.files[folder / "cpu.stat"] = "usage_usec 0\n" + "throttled_usec 0\n" * ("cpu" in names)
            self.files[folder / "cgroup.kill"] = ""
        new = {
            (1, "cpu"): {
                "cpu.cfs_quota_us": "-1",
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_burst_us": "0",
                "cpu.shares": "1024",
                "cpu.stat": "nr_periods 0\nthrottled_time 0\n",
            },
            (1, "cpuacct"): {"cpuacct.usage": "0\n"},
            (1, "cpuset"): {"cpuset.cpus": "\n", "cpuset.mems": "\n"},
            (1, "memory"): {
                "memory.limit_in_bytes": "-1",
                "memory.memsw.limit_in_bytes": "-1",
                "memory.max_usage_in_bytes": "0\n",
                "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
            },
            (2, "cpu"): {"cpu.max": "max 100000", "cpu.max.burst": "0", "cpu.weight": "100"},
            (2, "cpuset"): {"cpuset.cpus": "\n", "cpuset.mems": "\n"},
            (2, "memory"): {
                "memory.max": "max",
                "memory.swap.max": "max",
                "memory.peak": "0\n",
                "memory.events": "max 0\noom 0\noom_kill 0\n",
            },
        }
        for name in names:
            self.files.update({folder / file: text for file, text in new.get((self.version, name), {}).items()})

    def write(self, path: Path, text: str) -> None:
        folder = path.parent
        if path.name == "cgroup.procs":
            self._move(folder, int(text))
            return
        if path not in self.files:
            raise refused(errno.ENOENT)
        if path.name == "cgroup.kill":
            self.inside[folder].clear()
        elif path.name == "cgroup.subtree_control":
            if self.inside[folder]:  # no internal processes
                raise refused(errno.EBUSY)
            self.files[path] += text.removeprefix("+") + "\n"
        else:
            before = self.files[path]
            self.files[path] = text
            if not self._is_valid(folder):
                self.files[path] = before
                raise refused(errno.EINVAL)

    def _is_valid(self, folder: Path) -> bool:
        text = {path.name: text for path, text in self.files.items() if path.parent == folder}
        quota, _, period = text.get("cpu.max", "max 100000").partition(" ")
        if "cpu.cfs_quota_us" in text:
            quota, period = text["cpu.cfs_quota_us"].replace("-1", "max"), text["cpu.cfs_period_us"]
        memory, both = text.get("memory.limit_in_bytes", "-1"), text.get("memory.memsw.limit_in_bytes", "-1")
        burst = int(text.get("cpu.cfs_burst_us", text.get("cpu.max.burst", "0")))
        cpus = [int(cpu) for cpu in text.get("cpuset.cpus", "").split(",") if cpu.strip().isdigit()]
        return (
            (quota == "max" or int(quota) >= 1000)
            and burst <= (0 if quota == "max" else int(quota))
            and 1000 <= int(period or 100000) <= 1000000
            and all(cpu < 4 for cpu in cpus)
            and (both == "-1" or 0 < int(memory) <= int(both))
        )

    def _move(self, folder: Path, pid: int) -> None:
        if folder not in self.inside:
            raise refused(errno.ENOENT)
        if self.version == 1 and not self.files.get(folder / "cpuset.cpus", "0").strip():
            raise refused(errno.ENOSPC)
        for other, pids in self.inside.items():
            if pid in pids and (self.version == 2 or other.parts[:3] == folder.parts[:3]):
                pids.remove(pid)
        self.inside[folder].append(pid)

    def remove(self, folder: Path) -> None:
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


class Real(Files):
    """This machine's kernel; processes that wait for a word."""

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


@pytest.fixture(params=["version 1 played", "version 2 played", "version 1", "version 2"])
def kernel(request: pytest.FixtureRequest) -> Iterator[Played | Real]:
    version = 2 if "2" in request.param else 1
    if "played" in request.param:
        made: Played | Real = Played(version)
    else:
        made = real(version)
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
def group(kernel: Played | Real) -> Iterator[Cgroup]:
    made = Cgroup.create(next(_NAMES), kernel.trees, kernel)
    yield made
    assert made.remove() == []
    assert not any(kernel.is_there(tree.top / made.name) for tree in kernel.trees)


def file_of(kernel: Played | Real, group: Cgroup, controller: str, names: dict[int, str]) -> str | None:
    """Content of a controller's file in the kernel; None where it has no such controller in this version."""
    for tree in kernel.trees:
        if controller in tree.controllers:
            return kernel.read(tree.top / group.name / names[tree.version]).strip()
    return None


def test_group_holds_processes_and_ends_them(kernel):
    group = Cgroup.create(next(_NAMES), kernel.trees, kernel)
    assert (group.pids(), group.cpu_s()) == ([], 0.0)
    has_memory = any("memory" in tree.controllers for tree in kernel.trees)
    assert group.out_of_memory_kills() == (0 if has_memory else None)
    assert (group.memory_peak_bytes() is not None) == has_memory
    pids = sorted([kernel.start(), kernel.start()])
    for pid in pids:
        group.add(pid)
    assert group.pids() == pids
    assert group.remove() == []
    assert not any(kernel.lives(pid) for pid in pids)
    assert not any(kernel.is_there(tree.top / group.name) for tree in kernel.trees)
    assert group.remove() == []  # nothing is left to do


def test_groups_below_are_removed_too(kernel):
    group = Cgroup.create(next(_NAMES), kernel.trees, kernel)
    below = [tree.top / group.name / "below" for tree in kernel.trees]
    pid = kernel.start()
    for tree, folder in zip(kernel.trees, below, strict=True):
        kernel.make(folder)
        if "cpuset" in tree.controllers and tree.version == 1:
            kernel.write(folder / "cpuset.cpus", kernel.read(folder.parent / "cpuset.cpus").strip())
            kernel.write(folder / "cpuset.mems", kernel.read(folder.parent / "cpuset.mems").strip())
        kernel.write(folder / "cgroup.procs", str(pid))
    assert group.pids() == [pid]
    assert group.remove() == []
    assert not kernel.lives(pid)


def test_existing_name_is_refused(kernel, group):
    with pytest.raises(UsageError, match=group.name):
        Cgroup.create(group.name, kernel.trees, kernel)
    assert all(kernel.is_there(tree.top / group.name) for tree in kernel.trees)


def test_ended_process_cannot_be_added(kernel, group):
    if isinstance(kernel, Played):
        pytest.skip("played processes do not end")
    child = kernel.child()
    child.kill()
    child.wait()
    with pytest.raises(UsageError, match=f"process {child.pid} "):
        group.add(child.pid)


def test_limits_are_set_changed_and_lifted(kernel, group):
    quota = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
    memory = {1: "memory.limit_in_bytes", 2: "memory.max"}
    cpus = {1: "cpuset.cpus", 2: "cpuset.cpus"}
    free = {"quota": file_of(kernel, group, "cpu", quota), "memory": file_of(kernel, group, "memory", memory)}
    first = int(kernel.read(kernel.trees[-1].top / "cpuset.cpus")[0]) if isinstance(kernel, Played) else 0
    for limits in (Limits(0.05, (first,), 64 * MIB), Limits(0.5, (first,), 256 * MIB)):
        missing = group.limit(limits)
        us, period_us = limits.quota() or (0, 0)
        assert file_of(kernel, group, "cpu", quota) in (f"{us} {period_us}", str(us), None)
        assert file_of(kernel, group, "cpu", {1: "cpu.cfs_period_us", 2: "cpu.max"}) in (
            f"{us} {period_us}",
            str(period_us),
            None,
        )
        has_burst = (kernel.trees[0].top / group.name / "cpu.cfs_burst_us").exists() or isinstance(kernel, Played)
        burst = {1: "cpu.cfs_burst_us", 2: "cpu.max.burst"}
        assert not has_burst or file_of(kernel, group, "cpu", burst) in (str(us), None)
        assert file_of(kernel, group, "cpuset", cpus) in (str(first), None)
        assert file_of(kernel, group, "memory", memory) in (str(limits.memory_bytes), None)
        words = {"cpu": "CPU quota", "cpuset": "CPU set", "memory": "memory"}
        there = {name for tree in kernel.trees for name in tree.controllers}
        assert missing == tuple(word for name, word in words.items() if name not in there)
    assert group.limit(Limits()) == ()
    after = {"quota": file_of(kernel, group, "cpu", quota), "memory": file_of(kernel, group, "memory", memory)}
    assert [text and text.split()[0] for text in after.values()] == [text and text.split()[0] for text in free.values()]


def test_refusal_of_the_kernel_is_wrong_use(kernel, group):
    if not any("cpuset" in tree.controllers for tree in kernel.trees):
        pytest.skip("the kernel has no CPU sets in this version")
    with pytest.raises(UsageError, match=f"CPU set of {group.name} .*(Invalid argument|Numerical)"):
        group.limit(Limits(cpu_set=(900,)))


def test_process_beyond_its_memory_is_killed():
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


def test_own_processes_of_a_container_move():
    kernel = Played(2, has_own_processes=True)
    group = Cgroup.create("tfhet-abcd-algo-1", kernel.trees, kernel)
    assert kernel.inside[TOP] == []
    assert kernel.inside[TOP / "tfhet.rest"] == kernel.own
    assert group.limit(Limits(0.5, (1,), 64 * MIB)) == ()
    assert group.remove() == []


def test_failed_creation_leaves_no_group():
    kernel = Played(1, read_only=TOP / "memory")
    with pytest.raises(UsageError, match=r"memory/tfhet-a .*\(Read-only file system\)"):
        Cgroup.create("tfhet-a", kernel.trees, kernel)
    kernel.close()
