from __future__ import annotations

import socket

import pytest

from tfhet.doctor.host import MACHINE, HostFacts, _busy, cpu_quota, look
from tfhet.units import GIB


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


def test_this_machine_can_be_looked_at_and_every_rule_has_an_answer(tmp_path):
    here = look({"https_proxy": "http://proxy:1", "HTTP_PROXY": "ignored"}, 0, tmp_path / "not" / "there")
    assert isinstance(here, HostFacts) and here.cores >= here.cores_usable >= 1
    assert here.directory == str(tmp_path)
    assert here.proxies == ("https_proxy",)
    assert here.memory_bytes > here.memory_free_bytes > 0 and here.open_files > 0
    assert here.numa_nodes >= 1
    names = [check.name for check in MACHINE.checks(here)]
    assert set(names) == {rule.name for rule in MACHINE.rules}


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        (said,) = _busy([taken.getsockname()[1]])
        number = taken.getsockname()[1]
    assert said.startswith(f"port {number} at 0.0.0.0 is in use by")


def test_the_machine_without_a_proc_file_system_has_no_quota(tmp_path):
    (tmp_path / "proc").mkdir()
    here = look({}, 0, tmp_path, root=tmp_path)
    assert (here.cpu_quota, here.shm_bytes) == (None, None)
    assert here.memory_bytes > GIB // 4
