"""launch/metrics.py: the metrics of a host, by what it is and what runs on it."""

from __future__ import annotations

from tfhet.launch.hearing import Hearing
from tfhet.launch.metrics import labels, metrics_of
from tfhet.messages import MetricLine, rank
from tfhet.telemetry import UP, Metric

PROGRESS = rank.to_json(rank.Progress(steps=7, examples=896.0, step_s=1.5, wait_s=0.25))
METRICS = rank.to_json(rank.Metrics.of(MetricLine(7, 2, 200.0, 640.0, 12.5, 1.25)))
OF_PLANE = Metric("tfhet_of_plane", "gauge", "What a plane adds.")


def values(place, *messages: dict, processes=None, of_plane=None) -> dict[str, float]:
    hearing = Hearing(lambda line: None)
    for message in messages:
        hearing.take(message)
    return {m.name: value for m, value in metrics_of(place, hearing, processes or {}, of_plane or {}).items()}


def test_rank_0_tells_its_steps_its_loss_and_the_metrics_of_the_plane(assignment_of):
    place = assignment_of("t1", 0, ranks=2).place
    found = values(place, PROGRESS, METRICS, processes={"launcher": 1, "rank-0": 2}, of_plane={UP: 0.0, OF_PLANE: 3.0})
    assert found == {
        "tfhet_up": 1,
        "tfhet_of_plane": 3,
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


def test_a_data_host_is_up_when_its_plane_says_so(assignment_of):
    place = assignment_of("d1").place
    assert values(place, of_plane={UP: 1.0, OF_PLANE: 2.0}) == {"tfhet_up": 1, "tfhet_of_plane": 2}
    assert values(place, of_plane={UP: 0.0}) == {"tfhet_up": 0}
    assert labels(place) == {"training_job": "job", "group": "data_group", "host": "d1", "role": "data"}


def test_a_host_that_does_nothing_yet_is_not_up(assignment_of):
    for place in (assignment_of("d1").place, assignment_of("t1", 0).place, assignment_of("t1", 1, ranks=2).place):
        found = values(place, processes={"launcher": 1, "rank-7": 3})
        assert found["tfhet_up"] == 0 and "tfhet_steps_total" not in found
