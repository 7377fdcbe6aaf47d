"""Contract of a control group, on this machine's kernel in both versions."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfhet.container import Limits, hierarchy
from tfhet.container.cgroup import Cgroup
from tfhet.container.hierarchy import CONTROLLERS, Hierarchy, controllers, hierarchies, read, write
from tfhet.errors import UsageError
from tfhet.units import MIB

_NAMES = (f"tfhet-test-{os.getpid()}-{number}" for number in itertools.count())


class Machine:
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


def machine(version: int) -> Machine:
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("needs root on Linux")
    made = Machine(version)
    if not made.trees or not all(os.access(tree.top, os.W_OK) for tree in made.trees):
        pytest.skip(f"no cgroup of version {version} is mounted here for writing")
    return made


@pytest.fixture(params=[1, 2], ids="version {}".format)
def kernel(request: pytest.FixtureRequest) -> Iterator[Machine]:
    made = machine(request.param)
    yield made
    made.close()


@pytest.fixture
def group(kernel: Machine) -> Iterator[Cgroup]:
    made = Cgroup.create(next(_NAMES), kernel.trees)
    yield made
    assert made.remove() == []
    assert not any((tree.top / made.name).exists() for tree in kernel.trees)


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
    assert not any((tree.top / group.name).exists() for tree in kernel.trees)


def test_subgroup_is_removed_with_its_processes(kernel, group):
    pid = kernel.start()
    for tree in kernel.trees:
        (folder := tree.top / group.name / "below").mkdir()
        if "cpuset" in tree.controllers and tree.version == 1:
            for name in ("cpuset.cpus", "cpuset.mems"):
                write(folder / name, read(folder.parent / name).strip())
        write(folder / "cgroup.procs", str(pid))
    assert group.pids() == [pid]
    assert group.remove() == []
    assert not kernel.lives(pid)


def test_name_belongs_to_one_group(kernel, group):
    with pytest.raises(UsageError):
        Cgroup.create(group.name, kernel.trees)
    assert all((tree.top / group.name).exists() for tree in kernel.trees)


def test_ended_process_is_refused(kernel, group):
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


def state_of(kernel: Machine, group: Cgroup) -> dict[str, str]:
    """Content of the files of limits that the group has."""
    found = {}
    for tree in kernel.trees:
        for name, place in FILES[tree.version].items():
            controller, file = place.split("/")
            path = tree.top / group.name / file
            if controller in tree.controllers and path.exists():
                found[name] = read(path).strip()
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
    kernel = machine(1 if {"memory": 1}.items() <= controllers().items() else 2)
    if "memory" not in controllers():
        pytest.skip("no memory controller is mounted here for writing")
    group = Cgroup.create(next(_NAMES), hierarchies())
    try:
        group.limit(Limits(memory_bytes=64 * MIB))
        child = kernel.child("bytearray(400 << 20)")
        group.add(child.pid)
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.wait(60) == -9
        assert group.out_of_memory_kills() == 1
        assert (group.memory_peak_bytes() or 0) > 32 * MIB
    finally:
        group.remove()
        kernel.close()


def test_limits_in_files_of_version_2(tmp_path):
    """Plain files: a machine whose controllers are in version 1 has no limits in version 2."""
    (folder := tmp_path / "group").mkdir()
    expected = {"cpu.max": "2500 5000", "cpu.max.burst": "2500", "cpuset.cpus": "1", "memory.max": str(64 * MIB)}
    for name in expected:
        (folder / name).touch()
    group = Cgroup("group", [Hierarchy(tmp_path, 2, CONTROLLERS)])
    assert group.limit(Limits(0.5, (1,), 64 * MIB)) == ()
    assert {name: read(folder / name).splitlines()[0] for name in expected} == expected
    group.limit(Limits())
    lifted = ["max", "0", "", "max"]
    assert [read(folder / name).splitlines()[0] for name in expected] == lifted


def test_own_processes_of_a_container_are_moved(tmp_path, monkeypatch):
    """In version 2 a group with subgroups must not have processes."""
    for name, text in {"cgroup.subtree_control": "pids\n", "cgroup.procs": "1\n2\n"}.items():
        (tmp_path / name).write_text(text)
    written: list[tuple[str, str]] = []

    def kernel(path: Path, text: str) -> None:
        if path.name == "cgroup.subtree_control" and read(tmp_path / "cgroup.procs"):
            raise OSError(errno.EBUSY, "busy")
        written.append((path.parent.name, text))
        if len(written) == 2:
            (tmp_path / "cgroup.procs").write_text("")

    monkeypatch.setattr(hierarchy, "write", kernel)
    Hierarchy(tmp_path, 2, CONTROLLERS).prepare()
    controllers = [(tmp_path.name, f"+{name}") for name in ("cpu", "cpuset", "memory")]
    assert written == [("tfhet.rest", "1"), ("tfhet.rest", "2"), *controllers]


def test_group_that_cannot_be_made_leaves_nothing(tmp_path):
    with pytest.raises(UsageError, match="Read-only|No such file"):
        Cgroup.create("tfhet-a", [Hierarchy(tmp_path / "nowhere", 1, CONTROLLERS)])
    assert not list(tmp_path.iterdir())
