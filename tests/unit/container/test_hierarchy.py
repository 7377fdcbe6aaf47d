"""The cgroup hierarchies in a mount table."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tfhet.container.hierarchy import Hierarchy, controllers, hierarchies


def second(controllers: str, folder: str = "cgroup") -> tuple[str, str]:
    """A mount of version 2 with these controllers: its folder, and its line with {} for the parent folder."""
    escaped = folder.replace(" ", "\\040")
    return f"{folder}\n{controllers}", f"cgroup2 {{}}/{escaped} cgroup2 rw,nosuid,nsdelegate 0 0"


def first(names: str) -> tuple[str, str]:
    return f"{names}\n", f"cgroup {{}}/{names} cgroup rw,relatime,{names} 0 0"


EVERY = ("cpu", "cpuacct", "cpuset", "memory")


@pytest.mark.parametrize(
    ("mounts", "found"),
    [
        ([], []),
        (
            [first(names) for names in ("cpu,cpuacct", "cpuset", "memory", "devices", "name=systemd")],
            [("cpu,cpuacct", 1, ("cpu", "cpuacct")), ("cpuset", 1, ("cpuset",)), ("memory", 1, ("memory",))],
        ),
        ([second("cpuset cpu io memory hugetlb pids")], [("cgroup", 2, EVERY)]),
        (
            [second("cpu pids"), first("cpuacct"), first("memory")],
            [("cpuacct", 1, ("cpuacct",)), ("memory", 1, ("memory",)), ("cgroup", 2, ("cpu",))],
        ),
        ([second("hugetlb"), *map(first, EVERY)], [(name, 1, (name,)) for name in EVERY]),
        ([first("memory"), ("\n", "cgroup {}/elsewhere cgroup rw,memory 0 0")], [("memory", 1, ("memory",))]),
        ([second("cpu", "with space")], [("with space", 2, ("cpu", "cpuacct"))]),
    ],
    ids=["none", "version 1", "version 2", "both", "nothing left for 2", "mounted twice", "space"],
)
def test_each_controller_is_in_one_hierarchy(tmp_path: Path, monkeypatch, mounts, found):
    for folder, names in (content.split("\n") for content, _ in mounts):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.controllers").write_text(names + "\n")
    (tmp_path / "self").mkdir()
    lines = ["/dev/vda / ext4 rw,relatime 0 0", *(line.format(tmp_path) for _, line in mounts)]
    (tmp_path / "self" / "mounts").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    assert hierarchies() == tuple(Hierarchy(tmp_path / top, version, names) for top, version, names in found)
    assert controllers() == {name: version for _, version, names in found for name in names}
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert controllers() == {}
