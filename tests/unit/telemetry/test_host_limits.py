"""The limits of control groups, of both versions: the lowest one of the groups of a process and those above them."""

import pytest

from tfhet.telemetry import cpu_quota, memory_limit


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
