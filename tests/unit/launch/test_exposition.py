"""launch/exposition.py: what Prometheus is told of a host, read back by a strict reader of its format."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_text import read

from tfhet.launch.exposition import METRICS, Exposition, rendered
from tfhet.launch.hearing import Hearing
from tfhet.messages import MetricLine

TRAINER = '@tfhet {"event": "goes on", "steps": 7, "examples": 896.0, "step_s": 1.5, "wait_s": 0.25}'
LINE = str(MetricLine(7, 2, 200.0, 640.0, 12.5, 1.25))


def hearing(*lines: str) -> Hearing:
    made = Hearing(lambda line: None)
    for line in lines:
        made.hear(line)
    return made


def exposed(place, *lines: str, processes=None, fleet=None):
    return read(Exposition(place, hearing(*lines), lambda: processes or {}, lambda: fleet).text())


def values(found) -> dict[str, float]:
    return {name: family.value for name, family in found.items()}


def test_rank_0_tells_its_steps_its_loss_and_what_the_dispatcher_knows(place_of):
    fleet = SimpleNamespace(workers_registered=3, restarts=2)
    found = exposed(place_of("t1", 0, ranks=2), TRAINER, LINE, processes={"launcher": 1, "rank-0": 2}, fleet=fleet)
    assert values(found) == {
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
    labels = {"training_job": "job", "group": "dnn_group", "host": "t1", "role": "dnn", "rank": "0"}
    assert all(family.labels == labels for family in found.values())


def test_a_data_host_tells_its_workers(place_of):
    place, fleet = place_of("d1", None, "--data_host_workers", 2), SimpleNamespace(workers_registered=0, restarts=1)
    found = exposed(place, processes={"launcher": 1, "worker-0": 5, "worker-1": 6}, fleet=fleet)
    assert values(found) == {"tfhet_up": 1, "tfhet_workers": 2, "tfhet_restarts_total": 1}
    assert found["tfhet_up"].labels == {"training_job": "job", "group": "data_group", "host": "d1", "role": "data"}


def test_a_host_that_does_nothing_yet_is_not_up(place_of):
    for place in (place_of("d1"), place_of("t1", 0), place_of("t1", 1, ranks=2)):
        found = exposed(place, processes={"launcher": 1, "dispatcher": 2, "rank-7": 3})
        assert found["tfhet_up"].value == 0 and "tfhet_steps_total" not in found


def test_a_training_without_a_loss_has_none(place_of):
    assert "tfhet_loss" not in exposed(place_of("t1", 0), str(MetricLine(7, 2, 200.0, 640.0, 12.5)))
    assert math.isnan(exposed(place_of("t1", 0), LINE.replace("1.2500", "nan"))["tfhet_loss"].value)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(["host", "group", "rank"]), st.text(st.characters(exclude_categories=["Cs"]))),
    st.dictionaries(st.sampled_from(METRICS), st.floats() | st.integers(0, 2**70)),
)
def test_any_name_and_number_is_read_back(labels, numbers):
    found = read(rendered(labels, numbers))
    assert [family.labels for family in found.values()] == [labels] * len(numbers)
    assert [(name, str(family.value)) for name, family in found.items()] == [
        (metric.name, str(float(value))) for metric, value in numbers.items()
    ]
    assert {name: (family.kind, family.says) for name, family in found.items()} == {
        metric.name: (metric.kind, metric.says) for metric in numbers
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "# HELP a_total x\n# TYPE a_total counter\na_total{} 1",
        "# HELP a x\n# TYPE a counter\na{} 1\n",
        "# HELP a x\n# TYPE b gauge\na{} 1\n",
        "# HELP a x\n# TYPE a gauge\na{} one\n",
        '# HELP a x\n# TYPE a gauge\na{b="\\q"} 1\n',
        '# HELP a x\n# TYPE a gauge\na{b="1" c="2"} 1\n',
    ],
)
def test_the_reader_of_these_tests_is_strict(wrong):
    with pytest.raises((ValueError, AssertionError)):
        read(wrong)
