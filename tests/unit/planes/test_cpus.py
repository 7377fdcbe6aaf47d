from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tfhet.planes.cpus import confine, left_by, usable

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


def test_cpus_are_kept_core_by_core(topology):
    assert left_by(2, range(8), topology) == (1, 2, 3, 5, 6, 7)
    assert left_by(3, range(8), topology) == (2, 3, 5, 6, 7)
    assert left_by(6, range(8), topology) == (3, 7)


def test_only_cpus_that_a_host_may_use_are_given(topology):
    assert left_by(1, (2, 3, 7), topology) == (3, 7)


def test_where_nobody_knows_the_cores_every_cpu_is_one(tmp_path):
    assert left_by(1, (0, 1, 2), tmp_path) == (1, 2)


@pytest.mark.parametrize("reserve", [0, 2, 3])
def test_nobody_is_left_without_cpus(reserve, tmp_path):
    assert left_by(reserve, (0, 1), tmp_path) == (0, 1)


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
    """`threads(call)`: a process with five threads, the last of which comes after it has said that it is ready."""
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


def test_all_threads_are_confined_and_those_to_come(threads):
    pid = threads("pass")
    (first, *_) = usable()
    confine(pid, [first])
    assert {frozenset(os.sched_getaffinity(thread)) for thread in of_threads(pid)} == {frozenset([first])}


def test_a_process_that_is_gone_cannot_be_confined_and_need_not(threads):
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    confine(process.pid, usable())


def test_all_threads_give_way_but_the_one_that_tells_that_all_is_well(threads):
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
def test_a_session_gives_way_as_a_whole_only_when_it_is_the_processs_own(within, after):
    command = [sys.executable, "-c", SESSION, *within]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, start_new_session=True, check=True, timeout=30)
    assert told.stdout.split()[1:] == ["0", after]
