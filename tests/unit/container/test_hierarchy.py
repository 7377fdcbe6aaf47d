"""Which cgroup hierarchies are found in a mount table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.container.hierarchy import Hierarchy, controllers, hierarchies

ROOT = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw"


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text("\n".join([ROOT, *lines]) + "\n")
    return path


def second(tmp_path: Path, there: str, folder: str = "cgroup") -> str:
    """A line for version 2 with these controllers, in a folder of the test's."""
    top = tmp_path / folder
    top.mkdir()
    (top / "cgroup.controllers").write_text(there + "\n")
    escaped = str(top).replace(" ", "\\040")
    return f"30 22 0:27 / {escaped} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"


def first(tmp_path: Path, names: str, options: str = "rw") -> str:
    top = tmp_path / names
    top.mkdir()
    return f"32 31 0:29 / {top} {options},relatime shared:9 - cgroup cgroup {options},{names}"


def test_version_one_has_a_tree_for_each_mount(tmp_path: Path):
    mounts = table(
        tmp_path, *(first(tmp_path, names) for names in ("cpu,cpuacct", "cpuset", "memory", "devices", "name=systemd"))
    )
    assert hierarchies(mounts) == (
        Hierarchy(tmp_path / "cpu,cpuacct", 1, ("cpu", "cpuacct")),
        Hierarchy(tmp_path / "cpuset", 1, ("cpuset",)),
        Hierarchy(tmp_path / "memory", 1, ("memory",)),
    )


def test_version_two_has_one_tree_and_counts_cpu_without_a_controller(tmp_path: Path):
    mounts = table(tmp_path, second(tmp_path, "cpuset cpu io memory hugetlb pids"))
    assert hierarchies(mounts) == (Hierarchy(tmp_path / "cgroup", 2, ("cpu", "cpuacct", "cpuset", "memory")),)


def test_of_both_versions_each_controller_is_used_where_it_is(tmp_path: Path):
    mounts = table(tmp_path, second(tmp_path, "cpu pids"), first(tmp_path, "cpuacct"), first(tmp_path, "memory"))
    assert hierarchies(mounts) == (
        Hierarchy(tmp_path / "cpuacct", 1, ("cpuacct",)),
        Hierarchy(tmp_path / "memory", 1, ("memory",)),
        Hierarchy(tmp_path / "cgroup", 2, ("cpu",)),
    )
    assert controllers(mounts) == {"cpuacct": 1, "memory": 1, "cpu": 2}


def test_version_two_without_anything_left_for_it_is_no_tree(tmp_path: Path):
    names = ("cpu", "cpuacct", "cpuset", "memory")
    mounts = table(tmp_path, second(tmp_path, "hugetlb"), *(first(tmp_path, name) for name in names))
    assert [tree.version for tree in hierarchies(mounts)] == [1] * 4


def test_a_tree_that_is_mounted_twice_is_one(tmp_path: Path):
    line = first(tmp_path, "memory")
    mounts = table(tmp_path, line, line.replace(str(tmp_path), "/elsewhere"))
    assert hierarchies(mounts) == (Hierarchy(tmp_path / "memory", 1, ("memory",)),)


def test_a_space_in_a_place_is_read(tmp_path: Path):
    mounts = table(tmp_path, second(tmp_path, "cpu", "with space"))
    assert hierarchies(mounts)[0].top == tmp_path / "with space"


@pytest.mark.parametrize("text", ["", "rubbish\n\n - \n", ROOT, "1 2 3 4 5 6 - cgroup2"])
def test_a_table_without_cgroups_has_none(tmp_path: Path, text: str):
    (tmp_path / "mountinfo").write_text(text)
    assert hierarchies(tmp_path / "mountinfo") == ()


def test_a_machine_without_a_table_has_none(tmp_path: Path):
    assert hierarchies(tmp_path / "nowhere") == ()
    assert controllers(tmp_path / "nowhere") == {}


def test_what_may_not_be_written_is_no_controller_to_use(tmp_path: Path):
    mounts = table(tmp_path, second(tmp_path, "cpu").replace(str(tmp_path / "cgroup"), "/proc/sys"))
    assert controllers(mounts) == {}
