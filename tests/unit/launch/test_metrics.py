"""The metrics of a launcher, by its role and its processes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfhet.launch.output import labels, metrics_of
from tfhet.launch.script import ScriptOutput
from tfhet.messages import MetricLine, rank


@pytest.fixture
def values(side_of):
    """`values(assignment, *reports, processes=..., registered=...)`: the metrics of its launcher by name."""

    def build(assignment, *reports: rank.Report, processes: tuple[str, ...] = (), registered: int | None = None):
        side, output = side_of(assignment), ScriptOutput(lambda line: None)
        servers = {name: 1 for name in processes if name.startswith(("worker", "dispatcher"))}
        if registered is not None or servers:
            side._fleet = SimpleNamespace(workers_registered=registered or 0, restarts=2, pids=servers)
        for report in reports:
            output.take(rank.Metrics(report.exact()) if isinstance(report, MetricLine) else report)
        running = dict.fromkeys(("launcher", *processes), 1)
        found = metrics_of(assignment.place, output, running, side.metrics())
        return {metric.name: value for metric, value in found.items()}

    return build


def test_rank_0_reports_steps_and_the_dispatcher(assignment_of, values):
    found = assignment_of("t1", 0, ranks=2)
    reports = (
        rank.Progress(steps=7, examples=896.0, step_s=1.5, wait_s=0.25),
        MetricLine(7, 2, 200.0, 640.0, 12.5, 1.25),
    )
    assert values(found, *reports, processes=("rank-0",), registered=3) == {
        "tfhet_up": 1,
        "tfhet_workers_registered": 3,
        "tfhet_restarts_total": 2,
        "tfhet_steps_total": 7,
        "tfhet_examples_total": 896,
        "tfhet_step_seconds_total": 1.5,
        "tfhet_wait_seconds_total": 0.25,
        "tfhet_epoch": 2,
        "tfhet_loss": 1.25,
    }
    place = {"training_job": "job", "group": "dnn_group", "host": "t1", "role": "dnn", "rank": "0"}
    assert labels(found.place) == place


def test_data_host_reports_its_workers(assignment_of, values):
    host = assignment_of("d1", None, "--data_host_workers", 2)
    found = values(host, processes=("worker-0", "worker-1"))
    assert found == {"tfhet_up": 1, "tfhet_workers": 2, "tfhet_restarts_total": 2}
    assert labels(host.place) == {"training_job": "job", "group": "data_group", "host": "d1", "role": "data"}


@pytest.mark.parametrize(("host", "rank", "ranks"), [("d1", None, 1), ("t1", 0, 1), ("t1", 1, 2)])
def test_idle_host_is_not_up(assignment_of, values, host, rank, ranks):
    found = values(assignment_of(host, rank, ranks=ranks), processes=("dispatcher", "rank-7"))
    assert found["tfhet_up"] == 0 and "tfhet_steps_total" not in found
