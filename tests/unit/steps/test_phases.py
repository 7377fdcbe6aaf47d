from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from fake_clock import FakeClock
from sent import Sent

from tfhet import native
from tfhet.messages import rank
from tfhet.steps import ScriptSteps, script_steps as room
from tfhet.steps.finder import TRAINING, Moment
from tfhet.steps.phases import Phases
from tfhet.strategies import JobContext

JOB = JobContext("job", "homogeneous", host="algo-1")


@pytest.fixture(params=["compiled", "plain"])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ScriptSteps:
    if request.param == "plain":
        monkeypatch.setattr("tfhet.native.ops", lambda name: None)
    elif native.ops("deliveries") is None:
        pytest.skip("a C++ compiler is missing (Debian: g++)")
    return ScriptSteps(JOB, Sent())


def break_at_once(data: tf.data.Dataset) -> None:
    for _ in data:
        break


def adapt(data: tf.data.Dataset) -> None:
    tf.keras.layers.Normalization().adapt(data.map(lambda x, y: x))


LOOKS: dict[str, Callable[[tf.data.Dataset], object]] = {
    "take": lambda data: list(data.take(3)),
    "two takes": lambda data: [list(data.take(1)), list(data.take(2))],
    "next": lambda data: next(iter(data)),
    "numpy": lambda data: next(data.as_numpy_iterator()),
    "break": break_at_once,
    "other chain": lambda data: next(iter(data.unbatch().batch(9).prefetch(1))),
    "adapt": adapt,
}


@pytest.mark.parametrize("name", LOOKS)
def test_steps_after_a_look_are_recorded(steps, name):
    data = steps.watch(tf.data.Dataset.range(60).map(lambda n: (tf.fill([3], tf.cast(n, tf.float32)), n)).batch(4))
    LOOKS[name](data)
    steps.take()
    for _ in range(2):
        for _ in data.prefetch(2):
            pass
        steps.take()
    steps.close()
    training = steps._phases.current
    assert [(each["steps"], each["examples"]) for each in training.epochs] == [(15, 60), (15, 60)]
    assert name == "adapt" or steps._phases.recorded is training  # adapt may compute longer than this loop


def test_fit_is_recorded_after_a_look(steps):
    data = steps.watch(tf.data.Dataset.range(64).map(lambda n: (tf.fill([3], n), n)).batch(4).repeat())
    list(data.take(2))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(data, epochs=2, steps_per_epoch=10, verbose=0)
    steps.close()
    assert steps.meter.steps.added == 20


def test_data_set_of_each_epoch_is_one_phase(steps):
    for _ in range(3):
        for _ in steps.watch(tf.data.Dataset.range(10)):
            pass
        steps.take()
    steps.close()
    assert steps.meter.steps.added == 30 and len(steps._phases._phases) == 1


def batches(count: int, start_s: float, step_s: float = 0.1) -> list[Moment]:
    return [Moment(start_s + step_s * n, TRAINING, 0.01, 4, n == 0) for n in range(count)]


@pytest.mark.parametrize("longest", [0, 1])
def test_longest_training_is_recorded(longest):
    phases = Phases(1)
    for number in range(2):
        for event in batches(30, 100.0 * number, 0.6 if number == longest else 0.2):
            phases.add(event, number)
        assert phases.current.steps == 29
    phases.close(200.0)
    assert phases.recorded is phases._phases[longest]


def test_metric_steps_continue_in_the_next_training():
    phases = Phases(1)
    for key, start_s in (("look", 0.0), ("first", 10.0), ("second", 20.0)):
        for event in batches(3 if key == "look" else 20, start_s):
            phases.add(event, key)
    assert phases.current.first_step + phases.current.steps == 38  # the last step of each is open
    phases.close(30.0)
    assert phases.recorded.steps == 20


def test_alternating_data_sets_are_one_phase():
    phases = Phases(1)
    for pair in zip(batches(20, 0.0), batches(20, 0.05), strict=True):
        for key, event in zip("ab", pair, strict=True):
            phases.add(event, key)
    phases.close(2.0)
    assert phases._current == "a" and phases.recorded.steps == 20
    assert phases.recorded.meter.wait_pct() == pytest.approx(20.0, abs=1.0)


def test_batch_of_several_steps_is_counted_so():
    phases = Phases(2, parts=2)
    for event in batches(11, 0.0):
        phases.add(event, "a")
    phases.close(1.1)
    found = phases.recorded
    assert (found.steps, found.batch_size) == (22, 4)
    assert found.meter.step_ms().median == pytest.approx(50.0, abs=6.0)
    assert found.meter.wait_pct() == pytest.approx(10.0, abs=1.0)
    assert found.epochs == [{"epoch": 0, "steps": 22, "examples": 88}]


class Waiting:
    """A data set whose batch has been requested and does not arrive."""

    def __init__(self, dataset: tf.data.Dataset, ops: Any | None, has_ids: bool = False, passes: Any = None):
        self.dataset, self.lengths, self.pending_s = dataset, dict[str, int](), {"": 100.0}

    def take(self) -> list[Any]:
        return []

    take_deliveries = take


def test_wait_so_far_is_in_metric_lines(monkeypatch):
    monkeypatch.setattr("tfhet.steps.noted.NotedDataset", Waiting)
    steps = ScriptSteps(JOB, Sent(), FakeClock(100.0))
    steps.watch(tf.data.Dataset.range(3))
    steps.take()
    for _ in range(2):
        steps._clock.sleep(room.LINE_S)
        steps.take()
    assert steps._channel.reports[0] == rank.Progress(0, 0.0, 0.0, 0.0), "the watch of the launcher begins"
    lines = steps._channel.lines
    assert [(line.wait_pct, line.examples_per_s, line.step_ms) for line in lines] == [(100.0, 0.0, 1e4)] * 2
    steps._sets[0].noted.pending_s.clear()
    steps._clock.sleep(room.LINE_S)
    steps.close()
    assert len(steps._channel.lines) == 2, "nothing is new"


def test_loaders_of_each_epoch_share_their_notes():
    steps = ScriptSteps(JOB, Sent())
    loaders = [steps.watch_loader(True, source, {}) for source in ("train", "other", "train")]
    assert loaders[0] is loaders[2] is not loaders[1]
    assert steps.watch_loader(False, "train", {}) is not loaders[0]
