"""submit/request.py: the definitions find the numbers of the lines that a training prints, and those only."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, strategies as st

from tfhet.messages import MetricLine
from tfhet.submit import DEFINITIONS

END = (
    "[tfhet] end of epoch=2 steps=9 examples=1152 loss=1.5646 accuracy=0.4531 expected=1152 seen=1150 missing=2"
    " repeated=0 val_loss=1.3551 val_accuracy=0.7833"
)
BY_NAME = {definition.name: definition for definition in DEFINITIONS}
whole = st.integers(0, 10**15)
number = st.floats(0, 1e12)
lines = st.builds(
    MetricLine, whole, whole, number, number, st.floats(0, 100), st.none() | st.floats(-1e12, 1e12) | st.just(math.nan)
)


def found(line: str) -> dict[str, float]:
    """The values that all definitions find in a line of the log, as SageMaker does: the group of the first match."""
    hits = {name: re.search(definition.regex, line) for name, definition in BY_NAME.items()}
    return {name: float(hit.group(1)) for name, hit in hits.items() if hit is not None}


@given(lines, st.sampled_from(["", "[algo-2/0] ", "[1,mpirank:0,algo-2]<stdout>:[algo-2/0] "]))
def test_every_number_of_a_metric_line_is_found_as_it_is_printed(line, prefix):
    printed = MetricLine.parse(str(line))
    assert printed is not None
    expected = {name: value for name, value in printed.numbers().items() if math.isfinite(value)}
    assert found(f"{prefix}{line}") == expected


def test_every_number_of_the_line_has_a_definition():
    assert set(MetricLine(1, 0, 1.0, 1.0, 1.0, 1.0).numbers()) <= set(BY_NAME)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_not_reported_and_all_else_is(loss):
    assert set(found(str(MetricLine(10, 0, 1.0, 1.0, 1.0, loss)))) == {
        "step",
        "epoch",
        "step_ms",
        "examples_per_s",
        "wait_pct",
    }


def test_the_end_of_an_epoch_is_told_apart_from_its_steps():
    assert found(END) == {"accuracy": 0.4531, "val_loss": 1.3551, "val_accuracy": 0.7833, "examples_missing": 2.0}


@pytest.mark.parametrize(
    "line",
    [
        "[tfhet] stopped at step=20, as told; the next run goes on from /opt/ml/checkpoints",
        "[tfhet] resumed at epoch=1 step=20, 3 steps into it",
        "[tfhet] step_parts wait_ms=1.00 copy_ms=0.10 compute_ms=80.00",
        "[tfhet] rank=0 batches=34 weights=c6eabc67",
        "step=1 epoch=0 loss=2.0",
    ],
)
def test_other_lines_hold_no_metrics(line):
    assert found(line) == {}


def test_the_request_keeps_the_limits_of_sagemaker():
    request = [definition.to_request() for definition in DEFINITIONS]
    assert len(request) <= 40 and len({each["Name"] for each in request}) == len(request)
    for each in request:
        assert set(each) == {"Name", "Regex"}
        assert 1 <= len(each["Name"]) <= 255 and 1 <= len(each["Regex"]) <= 500
        assert re.compile(each["Regex"]).groups == 1
