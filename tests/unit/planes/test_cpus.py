"""CPUs of a host: the number that training needs, and processes that are confined or give way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tfhet.planes import cpus
from tfhet.planes.cpus import WINDOWS, Reserve, confine, cpu_s, left_by, usable

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not bind processes to CPUs"),
]


@pytest.fixture
def topology(tmp_path):
    """Four cores of two threads each: CPUs 0 and 4, 1 and 5, and so on."""
    for cpu in range(8):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("reserve", "of", "left"),
    [
        (2, range(8), (1, 2, 3, 5, 6, 7)),
        (3, range(8), (2, 3, 5, 6, 7)),
        (6, range(8), (3, 7)),
        (1, (2, 3, 7), (3, 7)),
        *[(reserve, (0, 1), (0, 1)) for reserve in (0, 2, 3)],
    ],
)
def test_reserve_takes_whole_cores(topology, reserve, of, left):
    assert left_by(reserve, of, topology) == left


def test_cpus_of_unknown_cores_are_single(tmp_path):
    assert left_by(1, (0, 1, 2), tmp_path) == (1, 2)


THREADS = """
import threading, time
from tfhet.planes.cpus import give_way
def more(): threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); time.sleep(60)
def later(): time.sleep(0.5); threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); time.sleep(60)
for work in (more, later): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
{call}
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def threads():
    """`threads(call)`: a process with five threads; the last one begins after it has printed that it is ready."""
    begun = []

    def start(call: str) -> int:
        command = [sys.executable, "-c", THREADS.format(call=call)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process.pid

    yield start
    for process in begun:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def of_threads(pid: int, count: int = 5) -> list[int]:
    """The numbers of all threads of a process, once there are `count`."""
    end = time.monotonic() + 20
    while len(found := [int(name) for name in os.listdir(f"/proc/{pid}/task")]) < count:
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def test_all_threads_are_confined(threads):
    pid = threads("pass")
    (first, *_) = usable()
    confine(pid, [first])
    assert {frozenset(os.sched_getaffinity(thread)) for thread in of_threads(pid)} == {frozenset([first])}


def test_ended_process_is_not_confined(threads):
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    confine(process.pid, usable())


def test_all_threads_but_the_reporter_give_way(threads):
    pid = threads("give_way()")
    policies = {thread: os.sched_getscheduler(thread) for thread in of_threads(pid)}
    assert policies.pop(pid) == os.sched_getscheduler(0)
    assert set(policies.values()) == {os.SCHED_IDLE}


SESSION = """
import os, subprocess, sys
from pathlib import Path
from tfhet.planes.cpus import give_way
def group(): return Path("/proc/self/autogroup").read_text().strip()
first = group()
if len(sys.argv) > 1: subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
else: give_way()
print(first.split()[0], first.split()[-1], group().split()[-1])
"""


def has_autogroups() -> bool:
    """Whether this kernel gives a new session an autogroup: it may lack them, or have them switched off."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
    return False


@pytest.mark.skipif(
    not has_autogroups(), reason="this kernel has no autogroups, or kernel.sched_autogroup_enabled is 0"
)
@pytest.mark.parametrize(
    ("within", "after"),
    [((), "19"), (("from tfhet.planes.cpus import give_way; give_way()",), "0")],
    ids=["its own", "another's"],
)
def test_only_own_session_gives_way(within, after):
    command = [sys.executable, "-c", SESSION, *within]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, start_new_session=True, check=True, timeout=30)
    assert found.stdout.split()[1:] == ["0", after]


@pytest.mark.parametrize(
    ("ranks", "used", "expected"),
    [
        (1, [0.7], [1]),
        (4, [1.4], [6]),
        (8, [2.0], [16]),
        (1, [1.4], [1]),
        (1, [1.6], [2]),
        (1, [0.3], []),
        (1, [1.0, 3.0, 1.0, 1.0], [1, 3]),
        (1, [1.0, 3.0, *[1.0] * WINDOWS], [1, 3, 1]),
        (1, [0.9, 0.8, 0.95, 0.7], [1]),
    ],
)
def test_reserve_follows_the_largest_use(ranks, used, expected):
    reported: list[int] = []
    measured = Reserve(ranks, lambda count, most: reported.append(count))
    for one in used:
        measured.add(one)
    assert reported == expected


def test_busy_process_is_measured_until_its_end(monkeypatch):
    monkeypatch.setattr(cpus, "WINDOW_S", 0.3)
    found: list[tuple[int, float]] = []
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    async def scenario() -> None:
        async with asyncio.timeout(30):
            following = asyncio.create_task(Reserve(8, lambda *use: found.append(use)).follow(child.pid))
            while not found:  # eight ranks: enough even when other tests leave this process a tenth of a CPU
                await asyncio.sleep(0.05)
            child.kill()
            await asyncio.to_thread(child.wait)
            await following

    try:
        asyncio.run(scenario())
    finally:
        child.kill()
        child.wait()
    assert all(0.0 < used < 8 * 1.5 for _, used in found)


def test_cpu_time_includes_children():
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])"
    parent = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        for _ in range(200):
            spent = cpu_s(parent.pid)
            assert spent is not None
            if spent > 0.5:
                break
            asyncio.run(asyncio.sleep(0.1))
        assert spent > 0.5
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
    assert cpu_s(parent.pid) is None
