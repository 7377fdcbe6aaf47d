from __future__ import annotations

import os

import pytest
from fake_clock import FakeClock

from benchmarks.beside import suite as beside
from tfhet.events import Event
from tfhet.record import Figure, Record

pytestmark = pytest.mark.timeout(120)


def test_a_turn_is_whole_steps():
    clock = FakeClock()
    steps = beside.Training(2, 1, 0.25, clock).steps_ms(1.0)
    assert steps == [250.0] * 4


def test_steps_are_compared_with_those_without_a_worker_of_the_same_round():
    steps = {"alone": [10.0, 20.0], "equal": [15.0, 30.0], "gives_way": [10.0, 20.0], "keeps_off": [11.0, 22.0]}
    used = {"alone": [0.0, 0.0], "equal": [1.0, 1.0], "gives_way": [0.5, 0.5], "keeps_off": [0.25, 0.5]}
    figures = beside.figures_of(steps, used)
    values = {name: round(figure.value, 3) for name, figure in figures.items()}
    assert values == {
        "beside.step_vs_alone.equal": 1.5,
        "beside.step_vs_alone.gives_way": 1.0,
        "beside.step_vs_alone.keeps_off": 1.1,
        "beside.step_ms.alone": 15.0,
        "beside.step_ms.equal": 22.5,
        "beside.step_ms.gives_way": 15.0,
        "beside.step_ms.keeps_off": 16.5,
        "beside.worker_cpus.equal": 1.0,
        "beside.worker_cpus.gives_way": 0.5,
        "beside.worker_cpus.keeps_off": 0.375,
    }


@pytest.mark.parametrize(("value", "kept"), [(1.0, True), (1.05, True), (1.06, False)])
def test_a_training_that_is_slower_beside_workers_fails_the_suite(value, kept):
    suite = beside.SUITE
    figures = {
        "beside.step_vs_alone.equal": Figure.single(2.0, unit="x"),
        "beside.step_vs_alone.gives_way": Figure.single(1.0, unit="x"),
        "beside.step_vs_alone.keeps_off": Figure.single(value, unit="x"),
    }
    record = Record.of("beside", figures)
    assert suite.is_kept(record) == kept
    assert suite.notes(record) == ([] if kept else ["not kept: beside.step_vs_alone.keeps_off is above 1.05"])


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="this system has no SCHED_IDLE")
def test_a_worker_is_measured_in_every_way_and_is_gone_afterwards():
    events: list[Event] = []
    steps, used = beside.measured(beside.Training(1, 1, 0.005), 1, 2.0, 1, 0, events.append)
    assert {way: len(taken) for way, taken in steps.items()} == dict.fromkeys(beside.WAYS, 1)
    assert used["alone"] == [0.0]
    assert all(used[way][0] > 0 for way in beside.WAYS[1:]), "in 2 s the kernel runs what gives way, too"
    assert [event.fields["case"] for event in events] == list(beside.WAYS)
