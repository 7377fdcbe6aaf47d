"""Loops that keep the CPUs busy."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from benchmarks.cluster_runs.idle_loops import idle_loops

SCRIPT = """
from benchmarks.cluster_runs.idle_loops import idle_loops
with idle_loops():
    print("up", flush=True)
    input()
"""


def test_each_cpu_has_a_loop_until_the_end() -> None:
    with idle_loops():
        loops = psutil.Process().children()
        assert len(loops) == len(os.sched_getaffinity(0))
    assert not any(loop.is_running() for loop in loops)


@pytest.mark.timeout(60)
def test_loops_end_with_a_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        loops = psutil.Process(parent.pid).children()
        parent.kill()
    assert loops
    psutil.wait_procs(loops, timeout=30)
    assert not any(loop.is_running() and loop.status() != psutil.STATUS_ZOMBIE for loop in loops)
