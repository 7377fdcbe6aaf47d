from __future__ import annotations

import pytest

from tfhet.record import Pause, StepTime
from tfhet.steps.finder import ENDS, MAY_END, OTHER, TRAINING, VALIDATION, Moment, StepFinder


def batch(at_s: float, wait_s: float = 0.01, of: str = TRAINING, begins: bool = False, examples: int = 32) -> Moment:
    return Moment(at_s, of, wait_s, examples, begins)


def found(*events: Moment, close_s: float | None = None) -> tuple[list[tuple[float, float, float]], list[Pause]]:
    """Steps as (beginning, duration, wait), and pauses."""
    finder = StepFinder()
    every = [each for event in events for each in finder.add(event)]
    if close_s is not None:
        every += finder.close(close_s)
    steps = [each for each in every if isinstance(each, StepTime)]
    rounded = [(round(s.at_s, 6), round(s.dur_s, 6), round(s.wait_s, 6)) for s in steps]
    return rounded, [each for each in every if isinstance(each, Pause)]


def test_step_lasts_until_the_next_request():
    steps, pauses = found(batch(0.0, begins=True), batch(0.1, 0.04), Moment(0.3), batch(1.0, begins=True))
    assert steps == [(0.0, 0.1, 0.01), (0.1, 0.2, 0.04)]
    assert pauses == [Pause("between epochs", 0.3, 0.7)]


def test_last_step_of_an_open_pass():
    steps, pauses = found(batch(0.0, begins=True), batch(0.1), batch(0.2), batch(5.0, begins=True), close_s=9.0)
    assert steps == [(0.0, 0.1, 0.01), (0.1, 0.1, 0.01), (0.2, 0.1, 0.01), (5.0, 0.1, 0.01)]
    (pause,) = pauses
    assert (pause.name, round(pause.at_s, 6), round(pause.dur_s, 6)) == ("between epochs", 0.3, 4.7)


@pytest.mark.parametrize("last", [batch(5.0, begins=True), batch(4.0, of=VALIDATION, begins=True)])
def test_keras_callback_says_where_the_last_step_of_a_pass_ends(last):
    may_end = [Moment(at_s, says=MAY_END) for at_s in (0.05, 0.16, 0.5)]
    events = sorted([batch(0.0, begins=True), batch(0.1), batch(0.2), *may_end], key=lambda each: each.at_s)
    steps, _ = found(*events, last)
    assert steps == [(0.0, 0.1, 0.01), (0.1, 0.1, 0.01), (0.2, 0.3, 0.01)]


def test_single_step_lasts_until_the_end():
    assert found(batch(0.0, begins=True), close_s=2.0)[0] == [(0.0, 2.0, 0.01)]


@pytest.mark.parametrize(("of", "count"), [(VALIDATION, 1), (VALIDATION, 3), (OTHER, 2), (OTHER, 5)])
def test_other_data_between_steps_are_a_validation(of, count):
    others = [batch(0.25 + 0.1 * number, of=of, begins=number == 0) for number in range(count)]
    steps, pauses = found(
        batch(0.0, begins=True), batch(0.1), *others, Moment(0.9, of), batch(1.0, begins=True), batch(1.1)
    )
    assert steps == [(0.0, 0.1, 0.01), (0.1, 0.1, 0.01), (1.0, 0.1, 0.01)]
    assert [(pause.name, round(pause.at_s, 6), round(pause.dur_s, 6)) for pause in pauses] == [("validation", 0.2, 0.8)]


def test_other_training_data_belong_to_the_step():
    steps, pauses = found(
        batch(0.0, begins=True), batch(0.02, 0.03, OTHER), batch(0.1), batch(0.12, 0.03, OTHER), batch(0.2)
    )
    assert steps == [(0.0, 0.1, 0.04), (0.1, 0.1, 0.04)]
    assert pauses == []


def test_declared_steps_may_take_several_batches():
    told = Moment(0.35, says=ENDS), Moment(0.8, says=ENDS)
    steps, pauses = found(
        batch(0.0, begins=True), batch(0.1), batch(0.2), told[0], batch(0.5), batch(0.6), told[1], Moment(0.9)
    )
    assert steps[-1] == (0.5, 0.3, 0.02)
    assert pauses == []


def test_passes_are_epochs():
    finder = StepFinder()
    for start in (0.0, 1.0, 2.0):
        for event in (batch(start, begins=True), batch(start + 0.1)):
            list(finder.add(event))
    assert finder.epoch == 2
