"""advice/input_bound.py and finding.py: one place says when a run is input-bound, and a finding is a sentence."""

from __future__ import annotations

import json

from tfhet.advice import Finding, InputState, sentence, state_by_wait
from tfhet.advice.input_bound import (
    BUSY_PCT,
    IDLE_PCT,
    INPUT_BOUND_PCT,
    INPUT_KEEPS_UP_PCT,
    state_by_use,
    waiting,
)


def test_a_finding_is_written_as_json_with_its_sentence() -> None:
    found = Finding("stay", "stay with two: CPUs bind", 2.0)
    assert sentence(found) == "Stay with two: CPUs bind."
    assert json.loads(json.dumps(found.to_json())) == {"kind": "stay", "sentence": sentence(found), "saves_us": 2.0}


def test_one_place_says_when_a_run_is_input_bound() -> None:
    assert state_by_wait(INPUT_BOUND_PCT) is InputState.BOUND
    assert state_by_wait(INPUT_KEEPS_UP_PCT) is InputState.HARDLY
    assert state_by_wait(INPUT_KEEPS_UP_PCT - 0.1) is InputState.NOT
    assert state_by_wait(float("nan")) is InputState.UNKNOWN
    assert state_by_use(BUSY_PCT, True) is InputState.NOT
    assert state_by_use(IDLE_PCT, False) is InputState.HARDLY
    assert state_by_use(IDLE_PCT, True) is InputState.BOUND
    assert waiting(50.0).clause.endswith("without which it would be 2.00 times faster")
