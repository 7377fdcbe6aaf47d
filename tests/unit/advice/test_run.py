"""advice/input_bound.py: whether a run waited for its input, and what to do first."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from tfhet.advice import Finding, InputState, of_run, paragraph, sentence, state_by_wait
from tfhet.advice.input_bound import (
    BUSY_PCT,
    IDLE_PCT,
    INPUT_BOUND_PCT,
    INPUT_KEEPS_UP_PCT,
    SHORTEN_STEP,
    Diagnosis,
    state_by_use,
)
from tfhet.record import Figure, RunSummary, StepTime, Waiting


def costs(*values: float) -> list[tuple[str, Figure]]:
    return [(f"part {place}", Figure.single(value, unit="us")) for place, value in enumerate(values)]


def kinds(found: Diagnosis) -> list[str]:
    return [each.kind for each in (found.verdict, *found.levers)]


def test_finding_is_json_and_a_sentence() -> None:
    found = Finding("stay", "stay with two: CPUs bind", 2.0)
    assert sentence(found) == "Stay with two: CPUs bind."
    assert json.loads(json.dumps(found.to_json())) == {"kind": "stay", "sentence": sentence(found), "saves_us": 2.0}


def test_costs_of_the_run_name_the_part() -> None:
    found = of_run(RunSummary(wait_pct=50.0, part_us={"read": 10.0, "decode": 80.0, "rescale": 10.0}))
    assert found.levers[0].clause == "first make decode cheaper, which is 80 % of the pipeline's time"


@pytest.mark.parametrize(
    ("share", "state", "verdict", "faster"),
    [
        (75.0, InputState.BOUND, "input_bound", "4.00 times"),
        (100.0, InputState.BOUND, "only_waiting", "100.0 %"),
        (INPUT_BOUND_PCT, InputState.BOUND, "input_bound", ""),
        (5.0, InputState.HARDLY, "hardly_input_bound", "1.05 times"),
        (INPUT_KEEPS_UP_PCT, InputState.HARDLY, "hardly_input_bound", ""),
        (INPUT_KEEPS_UP_PCT - 0.1, InputState.NOT, "keeps_up", ""),
        (0.0, InputState.NOT, "keeps_up", "1.00 times"),
        (None, InputState.UNKNOWN, "no_steps", ""),
        (math.nan, InputState.UNKNOWN, "no_steps", ""),
    ],
)
def test_share_of_waiting_decides(share, state, verdict, faster) -> None:
    found = of_run(RunSummary(wait_pct=share))
    assert (found.state, found.verdict.kind) == (state, verdict) and faster in found.verdict.clause
    assert (SHORTEN_STEP in found.levers) == (state is InputState.NOT)


@pytest.mark.parametrize(
    ("gpu_pct", "cpus_are_busy", "state"),
    [
        (BUSY_PCT, True, InputState.NOT),
        (IDLE_PCT, False, InputState.HARDLY),
        (IDLE_PCT, True, InputState.BOUND),
        (None, True, InputState.UNKNOWN),
    ],
)
def test_use_decides_without_waits(gpu_pct, cpus_are_busy, state) -> None:
    assert state_by_use(gpu_pct, cpus_are_busy) is state


@pytest.mark.parametrize(
    ("parts", "kind", "named"),
    [
        ((1.0, 3.0, 6.0), "cheaper_part", "part 2 cheaper, which is 60 %"),
        ((9.0, 1.0), "dear_source", "part 0, which is 90 %"),
        ((0.0,), "measure_the_pipeline", "tfhet profile"),
    ],
)
def test_most_expensive_part_is_first(parts, kind, named) -> None:
    lever = of_run(RunSummary(wait_pct=50.0), costs=costs(*parts)).levers[0]
    assert lever.kind == kind and named in lever.clause


@pytest.mark.parametrize(
    ("wait_pct", "used_pct", "kind"),
    [
        (50.0, 20.0, "find_the_wait"),
        (1.0, 20.0, "fewer_data_cpus"),
        (50.0, 90.0, "cheaper_part"),
        (1.0, 90.0, SHORTEN_STEP.kind),
    ],
)
def test_idle_data_hosts_change_the_advice(wait_pct, used_pct, kind) -> None:
    found = of_run(RunSummary(wait_pct=wait_pct), busiest_data_host=("algo-1", used_pct), costs=costs(1.0, 2.0))
    assert found.levers[0].kind == kind
    assert ("algo-1" in paragraph(found)) == (used_pct < IDLE_PCT)


def test_choice_of_a_plan_is_last() -> None:
    found = of_run(RunSummary(wait_pct=50.0), costs=costs(1.0, 9.0), choice="Take two: the accelerator binds.")
    assert kinds(found) == ["input_bound", "cheaper_part", "plan_says"]
    assert found.levers[-1].clause.endswith(": take two: the accelerator binds")


def waits(usual_s: float, peaks: dict[int, float]) -> Waiting:
    """Eighty steps of 0.1 s and their wait, 20 in an epoch, the first one a second after 1970."""
    each_s = [peaks.get(at, usual_s) for at in range(80)]
    return Waiting.of([StepTime(0.1 + s, s, epoch=at // 20, at_s=1.0 + at) for at, s in enumerate(each_s)])


def test_epoch_starts_do_not_make_input_bound() -> None:
    found = of_run(RunSummary(), waits=waits(0.0025, {20: 1.6, 40: 1.6, 60: 1.6}))
    assert found.state is InputState.NOT and kinds(found) == ["keeps_up", "bridge_epochs"]
    for number in ("2.4 %", "36.9 % of the time (3 waits, 4.79 s)", "1.58 times"):
        assert number in found.verdict.clause


@pytest.mark.parametrize(("times", "kind"), [(1, "few_steps"), (2, "input_bound")])
def test_few_steps_are_no_verdict(times: int, kind: str) -> None:
    waits = Waiting.of([StepTime(0.1, 0.09, times=times)] * 7)
    found = of_run(RunSummary(), waits=waits)
    assert (found.state, found.verdict.kind) == (InputState.BOUND, kind)
    assert ("7 measured steps" in sentence(found.verdict)) == (times == 1)


def test_stall_is_named_with_concurrent_events() -> None:
    events = [(30.0, "service.restarted"), (500.0, "host.lost"), (27.5, "a checkpoint"), (20.0, "an epoch")]
    found = of_run(RunSummary(), waits=waits(0.0, {31: 4.0, 28: 2.0}), events=events)
    assert kinds(found)[1] == "look_at_stalls" and "42.9 % of the time (2 waits, 6 s)" in found.verdict.clause
    first, _, second = found.levers[0].clause.partition(", 2 s at measured step 29")
    assert "4 s at measured step 32 soon after service.restarted, a checkpoint" in first and second
    assert "host.lost" not in paragraph(found) and "an epoch" not in paragraph(found)


def test_event_within_a_stall_is_during_it() -> None:
    stalls = waits(0.0, {31: 4.0})
    (words,) = (each.clause for each in of_run(RunSummary(), waits=stalls, events=[(34.0, "a checkpoint")]).levers)
    assert "4 s at measured step 32 during a checkpoint" in words


def test_most_expensive_cause_is_first() -> None:
    mostly_steady = of_run(RunSummary(), waits=waits(0.3, {31: 4.0}), costs=costs(1.0, 9.0))
    assert kinds(mostly_steady)[1:] == ["cheaper_part", "look_at_stalls"]
    mostly_stalled = of_run(RunSummary(), waits=waits(0.03, {31: 40.0, 60: 9.0}), costs=costs(1.0, 9.0))
    assert kinds(mostly_stalled)[1:] == ["look_at_stalls", "bridge_epochs", "cheaper_part"]
    assert mostly_stalled.state is InputState.BOUND and mostly_stalled.levers[-1].clause.startswith("then ")


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_more_waiting_is_never_called_less(share: float) -> None:
    states = [InputState.NOT, InputState.HARDLY, InputState.BOUND]
    found = of_run(RunSummary(wait_pct=share))
    assert found.state is state_by_wait(share)
    assert states.index(found.state) == (share >= INPUT_KEEPS_UP_PCT) + (share >= INPUT_BOUND_PCT)
