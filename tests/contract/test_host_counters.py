"""Contract of the counters of a host: of the machine, and of a cgroup of either version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tfhet.telemetry import cpu_quota, memory_limit
from tfhet.telemetry.host_counters import CgroupCounters, HostCounters, MachineCounters, host_counters


def cgroup(top: Path, version: int, place: str, shown_as_root: bool = False) -> CgroupCounters | None:
    """Counters of a group that has used 2.5 CPU seconds, 4096 bytes, and as many of cache; None if it is not found."""
    own = top / "self"
    where = "" if shown_as_root else place.lstrip("/")
    if version == 2:
        own.write_text(f"0::{place}\n")
        files = {
            top / where / "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            top / where / "memory.current": "8192\n",
            top / where / "memory.stat": "anon 1\ninactive_file 4000\nactive_file 96\nshmem 512\n",
        }
    else:
        own.write_text(f"5:memory:{place}\n4:cpuset:/\n3:cpu,cpuacct:{place}\n0::/\n")
        files = {
            top / "cpuacct" / where / "cpuacct.usage": "2500000000\n",
            top / "memory" / where / "memory.usage_in_bytes": "8192\n",
            top / "memory" / where / "memory.stat": "inactive_file 1\ntotal_inactive_file 4096\ntotal_shmem 512\n",
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
    assert made.counted in ("machine", "cgroup") and made.of_cpus >= 1
    first, then = made.read(), made.read()
    assert first.memory_bytes > 0
    for name in ("cpu_s", "received_bytes", "sent_bytes"):
        assert 0 <= getattr(first, name) <= getattr(then, name)
    if isinstance(made, CgroupCounters) and "tmp" in str(made._cpu):
        assert (first.cpu_s, first.memory_bytes, first.shared_bytes) == (2.5, 4096, 512)


def test_root_cgroup_is_the_machine(tmp_path):
    assert cgroup(tmp_path, 1, "/") is None
    (tmp_path / "self").write_text("0::/\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 1\n")  # the root of version 2 counts no memory
    assert CgroupCounters.find(tmp_path / "self", tmp_path) is None


@pytest.mark.parametrize("text", [None, "", "odd\n", "0::/gone\n", "4:cpuacct:/gone\n3:memory:/gone\n"])
def test_missing_files_of_a_cgroup(tmp_path, text):
    if text is not None:
        (tmp_path / "self").write_text(text)
    assert CgroupCounters.find(tmp_path / "self", tmp_path) is None


@pytest.mark.parametrize(
    ("group", "files", "quota", "memory"),
    [
        ("", {}, None, None),
        ("0::/job\n", {"job/cpu.max": "250000 100000", "job/memory.max": "3000000"}, 2.5, 3_000_000),
        ("0::/job\n", {"job/cpu.max": "max 100000", "job/memory.max": "max"}, None, None),
        (
            "0::/job/deep\n",
            {"job/cpu.max": "50000 100000", "job/deep/memory.max": "max", "job/memory.max": "5000000"},
            0.5,
            5_000_000,
        ),
        ("0::/away\n", {"cpu.max": "400000 100000"}, 4.0, None),
        (
            "3:cpu,cpuacct:/job\n4:memory:/job\n0::/\n",
            {"cpu/job/cpu.cfs_quota_us": "30000", "cpu/job/cpu.cfs_period_us": "100000"}
            | {"memory/job/memory.limit_in_bytes": "7000000"},
            0.3,
            7_000_000,
        ),
        (
            "3:cpu,cpuacct:/job\n2:memory:/job\n",
            {"cpu,cpuacct/job/cpu.cfs_quota_us": "-1", "cpu,cpuacct/job/cpu.cfs_period_us": "100000"}
            | {"memory/job/memory.limit_in_bytes": "9223372036854771712"},
            None,
            None,
        ),
        ("4:cpu:/job\n", {"memory/job/memory.limit_in_bytes": "7000000"}, None, None),
    ],
)
def test_lowest_limit_counts(tmp_path, group, files, quota, memory):
    for name, text in {"proc/self/cgroup": group, **{f"sys/fs/cgroup/{k}": v for k, v in files.items()}}.items():
        (path := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert (cpu_quota(tmp_path), memory_limit(tmp_path)) == (quota, memory)
