"""Contract of every reader of a host's counters: the machine's, and those of a cgroup of either version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tfhet.telemetry.host_counters import CgroupCounters, HostCounters, MachineCounters, host_counters


def cgroup(top: Path, version: int, place: str, shown_as_root: bool = False) -> CgroupCounters | None:
    """HostCounters of a group that was given 2.5 CPU seconds and 4096 bytes; None when it is not found."""
    own = top / "self"
    where = "" if shown_as_root else place.lstrip("/")
    if version == 2:
        own.write_text(f"0::{place}\n")
        files = {
            top / where / "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            top / where / "memory.current": "4096\n",
        }
    else:
        own.write_text(f"5:memory:{place}\n4:cpuset:/\n3:cpu,cpuacct:{place}\n0::/\n")
        files = {
            top / "cpuacct" / where / "cpuacct.usage": "2500000000\n",
            top / "memory" / where / "memory.usage_in_bytes": "4096\n",
        }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return CgroupCounters.find(own, top)


MAKERS: dict[str, Callable[[Path], HostCounters | None]] = {
    "machine": lambda top: MachineCounters(),
    "this host": lambda top: host_counters(),
    "version 1": lambda top: cgroup(top, 1, "/docker/abc"),
    "version 2": lambda top: cgroup(top, 2, "/kubepods/abc"),
    "version 1, shown as the root": lambda top: cgroup(top, 1, "/docker/abc", shown_as_root=True),
    "version 2, shown as the root": lambda top: cgroup(top, 2, "/", shown_as_root=True),
}


@pytest.fixture(params=MAKERS)
def made(request, tmp_path: Path) -> HostCounters:
    found = MAKERS[request.param](tmp_path)
    assert found is not None
    return found


def test_counters_never_decrease(made):
    assert made.counted in ("machine", "cgroup")
    assert made.of_cpus >= 1
    first, then = made.read(), made.read()
    assert first.memory_bytes > 0
    for name in ("cpu_s", "received_bytes", "sent_bytes"):
        assert 0 <= getattr(first, name) <= getattr(then, name)


@pytest.mark.parametrize("name", [name for name in MAKERS if name.startswith("version")])
def test_cgroup_counts_its_processes(tmp_path, name):
    found = MAKERS[name](tmp_path)
    assert found is not None and found.counted == "cgroup"
    assert (found.read().cpu_s, found.read().memory_bytes) == (2.5, 4096)


def test_root_of_version_1_is_the_machine(tmp_path):
    assert cgroup(tmp_path, 1, "/") is None


def test_root_without_memory_is_the_machine(tmp_path):
    (tmp_path / "self").write_text("0::/\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 1\n")
    assert CgroupCounters.find(tmp_path / "self", tmp_path) is None


@pytest.mark.parametrize("text", [None, "", "odd\n", "0::/gone\n", "4:cpuacct:/gone\n3:memory:/gone\n"])
def test_missing_files_mean_no_cgroup(tmp_path, text):
    if text is not None:
        (tmp_path / "self").write_text(text)
    assert CgroupCounters.find(tmp_path / "self", tmp_path) is None
