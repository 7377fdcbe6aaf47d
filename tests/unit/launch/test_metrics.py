"""The metrics of a launcher, by its role and its processes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfhet.launch.output import labels, metrics_of
from tfhet.launch.script_output import ScriptOutput


@pytest.fixture
def values(side_of):
    """`values(assignment, *processes)`: the metrics of its launcher by name."""

    def build(assignment, *processes: str):
        side, output = side_of(assignment), ScriptOutput(lambda line: None)
        servers = {name: 1 for name in processes if name.startswith(("worker", "dispatcher"))}
        if servers:
            side._fleet = SimpleNamespace(workers_registered=0, restarts=2, pids=servers)
        running = dict.fromkeys(("launcher", *processes), 1)
        found = metrics_of(assignment.place, output, running, side.metrics())
        return {metric.name: value for metric, value in found.items()}

    return build


def test_data_host_reports_its_workers(assignment_of, values):
    host = assignment_of("d1", None, "--data_host_workers", 2)
    found = values(host, "worker-0", "worker-1")
    assert found == {"tfhet_up": 1, "tfhet_workers": 2, "tfhet_restarts_total": 2}
    assert labels(host.place) == {"training_job": "job", "group": "data_group", "host": "d1", "role": "data"}


@pytest.mark.parametrize(("host", "rank", "ranks"), [("d1", None, 1), ("t1", 0, 1), ("t1", 1, 2)])
def test_idle_host_is_not_up(assignment_of, values, host, rank, ranks):
    found = values(assignment_of(host, rank, ranks=ranks), "dispatcher", "rank-7")
    assert found["tfhet_up"] == 0 and "tfhet_steps_total" not in found
