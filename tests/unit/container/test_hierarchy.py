"""Which cgroup hierarchies are found in a mount table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tfhet.container.hierarchy import Hierarchy, controllers, hierarchies

ROOT = "/dev/vda / ext4 rw,relatime 0 0"


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts lines of a mount table in the place of this machine's."""

    def put(*lines: str) -> None:
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "mounts").write_text("\n".join([ROOT, *lines]) + "\n")
        monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))

    return put


def second(tmp_path: Path, there: str, folder: str = "cgroup") -> str:
    """A line for version 2 with these controllers, in a folder of the test's."""
    top = tmp_path / folder
    top.mkdir()
    (top / "cgroup.controllers").write_text(there + "\n")
    escaped = str(top).replace(" ", "\\040")
    return f"cgroup2 {escaped} cgroup2 rw,nosuid,nsdelegate 0 0"


def first(tmp_path: Path, names: str) -> str:
    top = tmp_path / names
    top.mkdir()
    return f"cgroup {top} cgroup rw,relatime,{names} 0 0"


def test_version_one_has_a_tree_for_each_mount(mounted, tmp_path: Path):
    mounted(*(first(tmp_path, names) for names in ("cpu,cpuacct", "cpuset", "memory", "devices", "name=systemd")))
    assert hierarchies() == (
        Hierarchy(tmp_path / "cpu,cpuacct", 1, ("cpu", "cpuacct")),
        Hierarchy(tmp_path / "cpuset", 1, ("cpuset",)),
        Hierarchy(tmp_path / "memory", 1, ("memory",)),
    )


def test_version_two_has_one_tree_and_counts_cpu_without_a_controller(mounted, tmp_path: Path):
    mounted(second(tmp_path, "cpuset cpu io memory hugetlb pids"))
    assert hierarchies() == (Hierarchy(tmp_path / "cgroup", 2, ("cpu", "cpuacct", "cpuset", "memory")),)


def test_of_both_versions_each_controller_is_used_where_it_is(mounted, tmp_path: Path):
    mounted(second(tmp_path, "cpu pids"), first(tmp_path, "cpuacct"), first(tmp_path, "memory"))
    assert hierarchies() == (
        Hierarchy(tmp_path / "cpuacct", 1, ("cpuacct",)),
        Hierarchy(tmp_path / "memory", 1, ("memory",)),
        Hierarchy(tmp_path / "cgroup", 2, ("cpu",)),
    )
    assert controllers() == {"cpuacct": 1, "memory": 1, "cpu": 2}


def test_version_two_without_anything_left_for_it_is_no_tree(mounted, tmp_path: Path):
    names = ("cpu", "cpuacct", "cpuset", "memory")
    mounted(second(tmp_path, "hugetlb"), *(first(tmp_path, name) for name in names))
    assert [tree.version for tree in hierarchies()] == [1] * 4


def test_a_tree_that_is_mounted_twice_is_one(mounted, tmp_path: Path):
    line = first(tmp_path, "memory")
    mounted(line, line.replace(str(tmp_path), "/elsewhere"))
    assert hierarchies() == (Hierarchy(tmp_path / "memory", 1, ("memory",)),)


def test_a_space_in_a_place_is_read(mounted, tmp_path: Path):
    mounted(second(tmp_path, "cpu", "with space"))
    assert hierarchies()[0].top == tmp_path / "with space"


def test_a_table_without_cgroups_has_none(mounted):
    mounted()
    assert hierarchies() == ()
    assert controllers() == {}


def test_what_may_not_be_written_is_no_controller_to_use(mounted, tmp_path: Path):
    mounted(second(tmp_path, "cpu").replace(str(tmp_path / "cgroup"), "/proc/sys"))
    assert controllers() == {}
