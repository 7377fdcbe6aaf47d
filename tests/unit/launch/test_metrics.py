"""launch/metrics.py: the metrics of a host, by what it is and what runs on it."""

from __future__ import annotations

from types import SimpleNamespace

from tfhet.launch.hearing import Hearing
from tfhet.launch.metrics import labels, metrics_of
from tfhet.messages import MetricLine

TRAINER = '@tfhet {"event": "goes on", "steps": 7, "examples": 896.0, "step_s": 1.5, "wait_s": 0.25}'
LINE = str(MetricLine(7, 2, 200.0, 640.0, 12.5, 1.25))


def values(place, *lines: str, processes=None, fleet=None) -> dict[str, float]:
    hearing = Hearing(lambda line: None)
    for line in lines:
        hearing.hear(line)
    return {metric.name: value for metric, value in metrics_of(place, hearing, processes or {}, fleet).items()}


def test_rank_0_tells_its_steps_its_loss_and_what_the_dispatcher_knows(place_of):
    fleet = SimpleNamespace(workers_registered=3, restarts=2)
    place = place_of("t1", 0, ranks=2)
    assert values(place, TRAINER, LINE, processes={"launcher": 1, "rank-0": 2}, fleet=fleet) == {
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
    assert labels(place) == {"training_job": "job", "group": "dnn_group", "host": "t1", "role": "dnn", "rank": "0"}


def test_a_data_host_tells_its_workers(place_of):
    place, fleet = place_of("d1", None, "--data_host_workers", 2), SimpleNamespace(workers_registered=0, restarts=1)
    found = values(place, processes={"launcher": 1, "worker-0": 5, "worker-1": 6}, fleet=fleet)
    assert found == {"tfhet_up": 1, "tfhet_workers": 2, "tfhet_restarts_total": 1}
    assert labels(place) == {"training_job": "job", "group": "data_group", "host": "d1", "role": "data"}


def test_a_host_that_does_nothing_yet_is_not_up(place_of):
    for place in (place_of("d1"), place_of("t1", 0), place_of("t1", 1, ranks=2)):
        found = values(place, processes={"launcher": 1, "dispatcher": 2, "rank-7": 3})
        assert found["tfhet_up"] == 0 and "tfhet_steps_total" not in found
