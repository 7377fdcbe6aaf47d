"""A user's script passes a declared pipeline to `tfhet.distribute`: the record has stages, cut and audit."""

from __future__ import annotations

import json

import pytest

from tfhet.report import run_table, text

pytestmark = [pytest.mark.timeout(240)]
EXAMPLES = 96


def audit(run) -> list[tuple]:
    """For each epoch of the data: how many examples were seen, seen once, repeated, missing and left."""
    return [tuple(each.get(name) for name in ("seen", "once", "repeated", "missing", "left")) for each in epochs(run)]


def epochs(run) -> list[dict]:
    assert run.summary.exit_code == 0, run.summary.cause
    found = [dict(each) for each in run.summary.epochs if each.get("expected") is not None]
    assert found and {each["expected"] for each in found} == {EXAMPLES}
    for each in found:
        assert each["once"] + each["repeated"] + each["missing"] + each["left"] == EXAMPLES
        assert sum(each["by_rank"]) == each["seen"]
    return found


def taken(run) -> list[int]:
    """Number of examples that the script counted itself, by rank."""
    return [json.loads(path.read_text()) for path in run.output("taken-*.json")]


def rows(run) -> str:
    return text(run_table(run.summary))


def test_record_has_cut_and_examples_of_ranks(simulated, script):
    run = simulated("--train_script", script("pipeline_loop"), "--epochs", 3)
    assert run.summary.mode == "heterogeneous"
    found = epochs(run)
    assert sum(each["seen"] for each in found) == sum(taken(run)) == 3 * EXAMPLES
    assert [each["repeated"] + each["missing"] for each in found] == [0] * len(found)
    assert run.summary.stages_where == {"random_flip()": "data_group", "rescale()": "trainer"}
    assert run.summary.bytes_per_example == 8 * 8 * 3


@pytest.mark.slow
def test_stopped_script_has_not_lost_the_rest(simulated, script):
    stop = ("--stop", 3, "--prefetch", 2, "--data_plane", "local")
    run = simulated("--train_script", script("pipeline_loop"), *stop, data=0)
    (only,) = epochs(run)
    unused = sum(each["unused"] for each in run.summary.by_rank)
    assert taken(run) == [24, 24] and unused > 0
    assert (only["seen"], only["repeated"], only["missing"]) == (48 + unused, 0, 0)
    assert only["left"] == EXAMPLES - only["seen"]
    assert f"{unused} held by" in rows(run)


@pytest.mark.slow
def test_repeated_examples_are_noticed(simulated, script):
    run = simulated("--train_script", script("pipeline_loop"), "--repeat", "--data_plane", "local", data=0)
    (only,) = epochs(run)
    assert (only["seen"], only["once"], only["repeated"], only["missing"]) == (EXAMPLES, 0, EXAMPLES // 2, 0)
    assert f"{EXAMPLES // 2} repeated" in rows(run)


@pytest.mark.slow
def test_lost_examples_are_missing(simulated, script):
    run = simulated("--train_script", script("pipeline_loop"), "--lose", "--epochs", 3, "--data_plane", "local", data=0)
    assert audit(run)[0] == (88, 88, 0, 8, 0)
    assert f"{sum(each['missing'] for each in epochs(run))} missing" in rows(run)
