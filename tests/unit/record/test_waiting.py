"""record/waiting.py: the wait of a run is divided into epoch starts, stalls and the steady state."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from tfhet.record import RunSummary, Spread, StepTime, Waiting
from tfhet.record.waiting import LEAST_STEPS, STALL_STEPS

STEP_S = 0.1
JITTER = random.Random(18)


def run_of(waits: dict[int, float], count: int = 80, per_epoch: int = 20, usual_s: float = 0.0025) -> list[StepTime]:
    """Steps that compute for STEP_S and wait for about `usual_s`, those in `waits` (by index) for longer."""
    found = []
    for at in range(count):
        wait_s = waits.get(at, usual_s * JITTER.uniform(0.8, 1.2))
        found.append(StepTime(STEP_S + wait_s, wait_s, epoch=at // per_epoch, step=at + 1))
    return found


ISSUE = run_of({20: 1.6, 40: 1.6, 60: 1.6})
"""Three waits at epoch starts make a mean of 36.7 % over a median of 2.4 %."""


def test_waits_at_epoch_starts_are_no_steady_state() -> None:
    found = Waiting.of(ISSUE)
    assert found.mean_pct == pytest.approx(37, abs=2) and found.median_pct == pytest.approx(2.4, abs=0.2)
    assert found.epoch_starts.steps == (20, 40, 60) and not found.stalls.steps
    assert found.steady_pct == pytest.approx(2.4, abs=0.1)
    assert found.epoch_starts.faster == pytest.approx(1.58, abs=0.03)


def test_a_wait_within_an_epoch_is_a_stall_and_jitter_is_none() -> None:
    found = Waiting.of(run_of({31: 2.0, 50: 0.9 * STALL_STEPS * STEP_S}))
    assert found.stalls.steps == (31,) and not found.epoch_starts.steps
    assert found.stalls.waits_s[0] == pytest.approx(2.0, abs=0.01)


def test_a_run_that_always_waits_has_a_steady_state_only() -> None:
    found = Waiting.of(run_of({}, usual_s=0.3))
    assert not found.epoch_starts.steps and not found.stalls.steps
    assert found.steady_pct == found.mean_pct == pytest.approx(75, abs=1)


def test_batches_in_bursts_are_the_steady_state_of_a_slow_pipeline() -> None:
    found = Waiting.of(run_of(dict.fromkeys(range(0, 200, 8), 1.2), count=200, per_epoch=200, usual_s=0.0))
    assert found.median_pct == 0 and not found.stalls.steps
    assert found.steady_pct == found.mean_pct == pytest.approx(60, abs=1)


def test_few_steps_are_not_divided() -> None:
    found = Waiting.of(run_of({2: 5.0}, count=LEAST_STEPS - 1))
    assert not found.is_divided and not found.stalls.steps and found.steady_pct == found.mean_pct


def test_epochs_of_three_steps_are_all_start_and_are_not_divided() -> None:
    assert not Waiting.of(run_of({3: 5.0}, count=30, per_epoch=3)).is_divided


def test_nothing_is_known_of_no_steps() -> None:
    assert Waiting.of([]) == Waiting.of_run(RunSummary()) == Waiting()
    assert Waiting.of_run(RunSummary(wait_pct=50.0)).steady_pct == 50.0


def summary(taken: list[StepTime], /, **more: object) -> RunSummary:
    pairs = zip(*((step.dur_s, step.wait_s) for step in taken), strict=True)
    step_ms, wait_ms = ([1e3 * each for each in own] for own in pairs)
    return RunSummary(step_ms=Spread.of(step_ms), wait_ms=Spread.of(wait_ms), **more)  # type: ignore[arg-type]


def test_a_summary_and_a_timeline_say_the_same() -> None:
    epochs = [{"epoch": epoch, "steps": 20} for epoch in range(4)]
    by_steps = Waiting.of_run(RunSummary(), [*ISSUE, StepTime(9.0, 9.0, rank=1)])
    by_summary = Waiting.of_run(summary(ISSUE[3:], epochs=epochs, steps=80))
    assert by_summary.epoch_starts == pytest.approx(by_steps.epoch_starts)
    assert (by_summary.steady_pct, by_summary.median_pct) == pytest.approx((by_steps.steady_pct, by_steps.median_pct))


def test_the_means_of_metric_lines_are_weighed_by_their_steps() -> None:
    """A line of 10 steps each; the first is left out, and epochs have 40 steps."""
    lines = run_of({3: 0.4, 7: 0.4}, count=15)
    found = Waiting.of_run(summary(lines, epochs=[{"steps": 40}] * 4, steps=160))
    assert found.epoch_starts.steps == (3, 7)
    assert found.epoch_starts.total_s == pytest.approx(10 * 0.8, rel=0.02)


def test_what_other_ranks_wait_counts_as_steady() -> None:
    found = Waiting.of_run(summary(run_of({}, usual_s=0.0), wait_pct=40.0))
    assert (found.mean_pct, found.steady_pct, found.median_pct) == (40.0, 40.0, 0.0)


@given(st.lists(st.tuples(st.floats(), st.floats(), st.integers(0, 3)), max_size=40))
def test_the_parts_add_up_to_the_wait_of_any_steps(times: list[tuple[float, float, int]]) -> None:
    found = Waiting.of([StepTime(dur_s, wait_s, epoch=epoch) for dur_s, wait_s, epoch in times])
    parts = found.steady, found.epoch_starts, found.stalls
    assert all(0 <= part.share_pct <= 100.001 and part.faster > 0 for part in parts)
    assert sum(part.share_pct for part in parts) == pytest.approx(found.mean_pct or 0.0, abs=0.01)
