"""CPUs that are never idle."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from benchmarks.cluster_runs.idle_loops import idle_loops


def test_there_is_a_loop_of_the_lowest_kind_on_each_cpu_and_none_afterwards() -> None:
    with idle_loops():
        loops = psutil.Process().children()
        assert len(loops) == len(os.sched_getaffinity(0))
        for loop in loops:
            while (
                "benchmarks.cluster_runs.idle_loops" not in loop.cmdline()
                or os.sched_getscheduler(loop.pid) != os.SCHED_IDLE
                or len(os.sched_getaffinity(loop.pid)) > 1
            ):
                assert loop.is_running()
        assert sorted(os.sched_getaffinity(loop.pid) for loop in loops) == [{cpu} for cpu in os.sched_getaffinity(0)]
    assert not any(loop.is_running() for loop in loops)


@pytest.mark.timeout(60)
def test_the_loops_end_when_their_parent_is_killed() -> None:
    script = "from benchmarks.cluster_runs.idle_loops import idle_loops\n"
    script += "with idle_loops():\n    print('up', flush=True)\n    input()\n"
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None and parent.stdout is not None
    with parent:
        parent.stdout.readline()
        loops = psutil.Process(parent.pid).children()
        parent.kill()
    assert loops
    psutil.wait_procs(loops, timeout=30)
    assert not any(loop.is_running() and loop.status() != psutil.STATUS_ZOMBIE for loop in loops)
