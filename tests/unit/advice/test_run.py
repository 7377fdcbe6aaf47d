"""advice/input_bound.py: whether a run waited for its input, and what to do first."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from tfhet.advice import InputState, of_run, paragraph
from tfhet.advice.input_bound import INPUT_BOUND_PCT, INPUT_KEEPS_UP_PCT, SHORTEN_STEP
from tfhet.record import Figure, RunSummary, StepTime, Waiting


def costs(*values: float) -> list[tuple[str, Figure]]:
    return [(f"part {place}", Figure.single(value, unit="us")) for place, value in enumerate(values)]


@pytest.mark.parametrize(
    ("share", "state", "words"),
    [
        (
            75.0,
            InputState.BOUND,
            "Input-bound: 75.0 % of the step is waiting for data, without which it would be 4.00 times faster",
        ),
        (100.0, InputState.BOUND, "100.0 % of the step is waiting for data, all of it"),
        (5.0, InputState.HARDLY, "Hardly input-bound: waiting for data is 5.0 % of the step"),
        (
            0.0,
            InputState.NOT,
            "a perfect input would make it 1.00 times faster. First shorten the training step itself",
        ),
        (None, InputState.UNKNOWN, "not known: no step of it was measured"),
        (math.nan, InputState.UNKNOWN, "not known"),
    ],
)
def test_the_share_of_waiting_decides(share, state, words) -> None:
    found = of_run(RunSummary(wait_pct=share))
    assert found.state is state
    assert words in paragraph(found)


def test_the_dearest_part_is_named_first() -> None:
    bound = RunSummary(wait_pct=50.0)
    assert "First make part 2 cheaper, which is 60 % of" in paragraph(of_run(bound, costs=costs(1.0, 3.0, 6.0)))
    assert "First look at part 0, which is 90 %" in paragraph(of_run(bound, costs=costs(9.0, 1.0)))
    assert "First measure the pipeline with `tfhet profile`" in paragraph(of_run(bound, costs=costs(0.0)))


def test_data_hosts_that_are_idle_change_the_advice() -> None:
    waiting, free = RunSummary(wait_pct=50.0), RunSummary(wait_pct=1.0)
    assert "find out why, since the busiest data host, algo-1, used 20.0 % of its CPUs" in paragraph(
        of_run(waiting, busiest_data_host=("algo-1", 20.0), costs=costs(1.0, 2.0))
    )
    assert "try fewer data CPUs, since" in paragraph(of_run(free, busiest_data_host=("algo-1", 20.0)))
    for busy in (waiting, free):
        assert "algo-1" not in paragraph(of_run(busy, busiest_data_host=("algo-1", 90.0)))


def test_what_a_plan_chose_stands_after_the_advice() -> None:
    found = of_run(RunSummary(wait_pct=50.0), costs=costs(1.0, 9.0), choice="Take two: the accelerator binds.")
    assert paragraph(found).endswith("CPU. The plan says: take two: the accelerator binds.")


def waits(usual_s: float, peaks: dict[int, float]) -> Waiting:
    """Eighty steps of 0.1 s and their wait, 20 in an epoch, the first one a second after 1970."""
    each_s = [peaks.get(at, usual_s) for at in range(80)]
    return Waiting.of([StepTime(0.1 + s, s, epoch=at // 20, at_s=1.0 + at) for at, s in enumerate(each_s)])


def test_epoch_starts_do_not_make_a_run_input_bound() -> None:
    found = of_run(RunSummary(), waits=waits(0.0025, {20: 1.6, 40: 1.6, 60: 1.6}))
    assert found.state is InputState.NOT
    words = paragraph(found)
    assert words.startswith("Not input-bound in the steady state: waiting for data is 2.4 % of the step (median 2.4 %)")
    assert "; epoch starts cost 36.9 % of the time (3 waits, 4.79 s), without which the run would be 1.58" in words
    assert "For the epoch starts read on" in words and "stalls" not in words and SHORTEN_STEP not in found.levers


def test_a_stall_is_named_with_what_happened_then() -> None:
    events = [(30.0, "service.restarted"), (500.0, "host.lost"), (27.5, "a checkpoint"), (20.0, "an epoch")]
    found = of_run(RunSummary(), waits=waits(0.0, {31: 4.0, 28: 2.0}), events=events)
    words = paragraph(found)
    assert "stalls cost 42.9 % of the time (2 waits, 6 s)" in words
    assert "4 s at measured step 32 beside service.restarted, a checkpoint, 2 s at measured step 29 " in words
    assert "host.lost" not in words and "an epoch" not in words


def test_the_dearest_cause_is_advised_on_first() -> None:
    mostly_steady = of_run(RunSummary(), waits=waits(0.3, {31: 4.0}), costs=costs(1.0, 9.0))
    assert [each.kind for each in mostly_steady.levers] == ["cheaper_part", "look_at_stalls"]
    mostly_stalled = of_run(RunSummary(), waits=waits(0.03, {31: 40.0, 60: 9.0}), costs=costs(1.0, 9.0))
    assert [each.kind for each in mostly_stalled.levers] == ["look_at_stalls", "bridge_epochs", "cheaper_part"]
    assert mostly_stalled.state is InputState.BOUND and paragraph(mostly_stalled).endswith(
        "Then make part 1 cheaper, which is 90 % of the pipeline's CPU."
    )


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_more_waiting_is_never_called_less(share: float) -> None:
    states = [InputState.NOT, InputState.HARDLY, InputState.BOUND]
    found = of_run(RunSummary(wait_pct=share))
    assert paragraph(found).endswith(".")
    assert states.index(found.state) == (share >= INPUT_KEEPS_UP_PCT) + (share >= INPUT_BOUND_PCT)
