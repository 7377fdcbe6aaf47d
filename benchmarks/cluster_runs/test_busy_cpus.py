from __future__ import annotations

import psutil

from benchmarks.cluster_runs.busy_cpus import busy_cpus
from tfhet.record.record import usable_cores


def test_a_process_for_each_cpu_runs_for_as_long_as_it_is_wanted():
    before = set(psutil.Process().children())
    with busy_cpus():
        there = set(psutil.Process().children()) - before
        assert len(there) == usable_cores() and all(process.is_running() for process in there)
    assert not {process for process in there if process.is_running()}
