"""The limits of control groups, of both versions."""

import pytest

from tfhet.telemetry import cpu_quota, memory_limit


@pytest.mark.parametrize(
    ("group", "files", "quota"),
    [
        ("0::/job\n", {"sys/fs/cgroup/job/cpu.max": "250000 100000"}, 2.5),
        ("0::/job/deep\n", {"sys/fs/cgroup/job/cpu.max": "50000 100000"}, 0.5),
        ("0::/job\n", {"sys/fs/cgroup/job/cpu.max": "max 100000"}, None),
        ("0::/away\n", {"sys/fs/cgroup/cpu.max": "400000 100000"}, 4.0),
        (
            "3:cpu,cpuacct:/job\n0::/\n",
            {
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "30000",
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
            },
            0.3,
        ),
        (
            "3:cpu,cpuacct:/job\n2:memory:/job\n",
            {
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        ("", {}, None),
    ],
)
def test_the_quota_is_the_least_of_the_groups_on_the_way_up_in_both_versions(tmp_path, group, files, quota):
    for name, text in {"proc/self/cgroup": group, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cpu_quota(tmp_path) == quota


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        ("0::/job\n", {"job/memory.max": "3000000"}, 3_000_000),
        ("0::/job/deep\n", {"job/deep/memory.max": "max", "job/memory.max": "5000000"}, 5_000_000),
        ("0::/job\n", {"job/memory.max": "max"}, None),
        ("4:memory:/job\n", {"memory/job/memory.limit_in_bytes": "7000000"}, 7_000_000),
        ("4:memory:/job\n", {"memory/job/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("4:cpu:/job\n", {"memory/job/memory.limit_in_bytes": "7000000"}, None),
    ],
)
def test_the_memory_limit_is_the_least_of_the_groups_on_the_way_up_in_both_versions(tmp_path, group, files, limit):
    for name, text in {
        "proc/self/cgroup": group,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory_limit(tmp_path) == limit
