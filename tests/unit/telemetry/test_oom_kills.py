"""The kernel's count of processes that it killed for lack of memory."""

from __future__ import annotations

import pytest

from tfhet.telemetry.host_counters import oom_kills


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("4:memory:/job", {"memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"}, 3),
        ("4:memory:/elsewhere", {"memory/memory.oom_control": "oom_kill 2\n"}, 2),
        ("0::/job", {"job/memory.events": "low 0\noom 5\noom_kill 4\n"}, 4),
        ("0::/job", {}, 0),
        ("0::/job", {"job/memory.events": "torn"}, 0),
    ],
    ids=["version 1", "in a container", "version 2", "no file", "damaged"],
)
def test_kills_are_counted(tmp_path, groups, files, expected):
    for name, content in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{n}": c for n, c in files.items()}}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert oom_kills(tmp_path) == expected
