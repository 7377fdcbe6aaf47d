"""launch/metrics.py: the metrics of a host, by what it is and what runs on it."""

from __future__ import annotations

from types import SimpleNamespace

from tfhet.events import ignore
from tfhet.launch.output import labels, metrics_of
from tfhet.launch.script import Hearing
from tfhet.messages import MetricLine, rank
from tfhet.planes import Outlets

PROGRESS = rank.Progress(steps=7, examples=896.0, step_s=1.5, wait_s=0.25)
METRICS = MetricLine(7, 2, 200.0, 640.0, 12.5, 1.25)


def values(assignment, *reports: rank.Report, processes=None, fleet=None) -> dict[str, float]:
    outlets = Outlets(lambda line: None, lambda report: None, ignore, lambda order: None, 20.0, bytes(32))
    side = assignment.plane.launcher_side(assignment.plane_settings, assignment.place, outlets)
    servers = {name: pid for name, pid in (processes or {}).items() if name.startswith(("worker", "dispatcher"))}
    if fleet is not None or servers:
        side._fleet = SimpleNamespace(workers_registered=0, restarts=0, pids=servers)
        side._fleet.__dict__.update(vars(fleet) if fleet else {})
    hearing = Hearing(lambda line: None)
    for report in reports:
        hearing.take(rank.Metrics(report.exact()) if isinstance(report, MetricLine) else report)
    return {
        metric.name: value
        for metric, value in metrics_of(assignment.place, hearing, processes or {}, side.metrics()).items()
    }


def test_rank_0_tells_its_steps_its_loss_and_what_the_dispatcher_knows(assignment_of):
    fleet = SimpleNamespace(workers_registered=3, restarts=2)
    found = assignment_of("t1", 0, ranks=2)
    assert values(found, PROGRESS, METRICS, processes={"launcher": 1, "rank-0": 2}, fleet=fleet) == {
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
    assert labels(found.place) == {
        "training_job": "job",
        "group": "dnn_group",
        "host": "t1",
        "role": "dnn",
        "rank": "0",
    }


def test_a_data_host_tells_its_workers(assignment_of):
    host, fleet = assignment_of("d1", None, "--data_host_workers", 2), SimpleNamespace(workers_registered=0, restarts=1)
    found = values(host, processes={"launcher": 1, "worker-0": 5, "worker-1": 6}, fleet=fleet)
    assert found == {"tfhet_up": 1, "tfhet_workers": 2, "tfhet_restarts_total": 1}
    assert labels(host.place) == {"training_job": "job", "group": "data_group", "host": "d1", "role": "data"}


def test_a_host_that_does_nothing_yet_is_not_up(assignment_of):
    for one in (assignment_of("d1"), assignment_of("t1", 0), assignment_of("t1", 1, ranks=2)):
        found = values(one, processes={"launcher": 1, "dispatcher": 2, "rank-7": 3})
        assert found["tfhet_up"] == 0 and "tfhet_steps_total" not in found
