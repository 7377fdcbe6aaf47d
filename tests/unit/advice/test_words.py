"""advice/words.py and input_bound.py: every kind of finding has words, and words are the last thing made of it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tfhet.advice import Finding, InputState, Severity, clause, sentence, state_by_wait, words
from tfhet.advice.finding import advice, fact
from tfhet.advice.input_bound import state_by_use, waiting
from tfhet.advice.thresholds import BUSY_PCT, IDLE_PCT, INPUT_BOUND_PCT, INPUT_KEEPS_UP_PCT

ROOM = Path(words.__file__).parent


def kinds() -> set[str]:
    """All text constants of the room that look like the kind of a finding."""
    trees = [ast.parse(path.read_text()) for path in ROOM.glob("*.py") if path.name not in ("words.py", "__init__.py")]
    return {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words.TEMPLATES
    }


def test_every_template_belongs_to_a_finding() -> None:
    assert set(words.TEMPLATES) - kinds() == {"named_change"}  # for changes that are not found by a rule


@pytest.mark.parametrize("kind", sorted(words.TEMPLATES))
def test_a_template_begins_in_lower_case_and_has_no_full_stop(kind: str) -> None:
    template = words.TEMPLATES[kind]
    assert not template.endswith(".")
    assert template[0] == "{" or template.split()[0] in ("GPUs", "CloudWatch", "SageMaker's") or template[0].islower()


def test_a_finding_is_written_as_json_with_what_it_quotes() -> None:
    found = advice("plan_says").quoting(fact("stay", cluster="two", binding="CPUs")).saving(2.0)
    assert json.loads(json.dumps(found.to_json())) == {
        "kind": "plan_says",
        "severity": "advice",
        "facts": {},
        "about": {"kind": "stay", "severity": "fact", "facts": {"cluster": "two", "binding": "CPUs"}},
        "saves_us": 2.0,
    }
    assert sentence(found) == "The plan says: stay with two: CPUs bind."


def test_what_is_not_known_is_left_out_of_the_sentence() -> None:
    facts = {"maps": 1, "us": 1.0, "whole_us": 2.0, "batch": 4, "call_us": 10.0}
    assert "; tfhet" not in clause(Finding("single_images", facts={**facts, "stages": ()}))
    assert "1 map on single" in clause(Finding("single_images", facts={**facts, "stages": ("a", "b")}))
    assert "; tfhet has a, b for whole batches" in clause(
        Finding("single_images", facts={**facts, "stages": ("a", "b")})
    )


def test_one_place_says_when_a_run_is_input_bound() -> None:
    assert state_by_wait(INPUT_BOUND_PCT) is InputState.BOUND
    assert state_by_wait(INPUT_KEEPS_UP_PCT) is InputState.HARDLY
    assert state_by_wait(INPUT_KEEPS_UP_PCT - 0.1) is InputState.NOT
    assert state_by_wait(float("nan")) is InputState.UNKNOWN
    assert state_by_use(BUSY_PCT, True) is InputState.NOT
    assert state_by_use(IDLE_PCT, False) is InputState.HARDLY
    assert state_by_use(IDLE_PCT, True) is InputState.BOUND
    assert waiting(50.0).severity is Severity.PROBLEM and waiting(50.0).facts["speedup"] == 2.0
