"""how fast the CPUs are while others use them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.cluster_runs import job_data
from benchmarks.plan.yardstick import Pace, yardstick
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError


def test_a_batch_costs_the_cpu_of_all_cpus_over_the_batches_of_all() -> None:
    pace = Pace([[(0.0, 0.0, 0.0), (10.0, 4.0, 20.0)], [(0.0, 1.0, 5.0), (10.0, 3.0, 15.0)]])
    assert pace.batch_s(0.0, 10.0) == pytest.approx(6.0 / 30.0)
    assert pace.batch_s(2.0, 4.0) == pytest.approx(6.0 / 30.0)


def test_only_what_was_done_between_the_two_moments_counts() -> None:
    pace = Pace([[(0.0, 0.0, 0.0), (1.0, 1.0, 10.0), (2.0, 2.0, 12.0)], []])
    assert pace.batch_s(0.0, 1.0) == pytest.approx(0.1) and pace.batch_s(1.0, 2.0) == pytest.approx(0.5)
    with pytest.raises(TfhetError, match=r"no batch of the yardstick was made in 3\.0 s"):
        pace.batch_s(5.0, 8.0)


@pytest.mark.timeout(300)  # its processes work only while no other test does
def test_it_works_on_each_cpu_when_nobody_else_does_and_ends_with_its_context(tmp_path: Path) -> None:
    job_data.write_apart(tmp_path / "data", "none", 64, 4)
    before = {child.pid for child in psutil.Process().children()}
    with yardstick() as yard:
        works = [child for child in psutil.Process().children() if child.pid not in before]
        for _ in range(2):
            with yard.beside("none", 64, tmp_path / "data") as pace:
                begin_s = SYSTEM.monotonic()
                while SYSTEM.monotonic() - begin_s < 1.0:
                    SYSTEM.sleep(0.1)
            assert 0.0 < pace[0].batch_s(begin_s, begin_s + 1.0) < 1.0
            assert len(pace[0].cpus) == len(works) == len(os.sched_getaffinity(0))
        assert {os.sched_getscheduler(work.pid) for work in works} == {os.SCHED_IDLE}
        assert sorted(os.sched_getaffinity(work.pid) for work in works) == [{cpu} for cpu in os.sched_getaffinity(0)]
    assert not any(work.is_running() for work in works)


@pytest.mark.timeout(300)  # its processes work only while no other test does
def test_its_processes_end_when_their_parent_is_killed_while_they_work(tmp_path: Path) -> None:
    job_data.write_apart(tmp_path / "data", "none", 64, 4)
    script = (
        "import sys, pathlib\nfrom benchmarks.plan.yardstick import yardstick\n"
        "with yardstick() as yard, yard.beside('none', 64, pathlib.Path(sys.argv[1])):\n"
        "    print('up', flush=True)\n    input()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "up\n"
        works = psutil.Process(parent.pid).children()
        parent.kill()
    assert len(works) == len(os.sched_getaffinity(0))
    psutil.wait_procs(works, timeout=30)
    assert not any(work.is_running() and work.status() != psutil.STATUS_ZOMBIE for work in works)
