from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from tfhet.messages import UNITS, MetricLine

DOCUMENTED = "[tfhet] step=500 epoch=2 step_ms=86.1 examples_per_s=95143 loss=2.3000 wait_pct=3.1"
LINE = MetricLine(500, 2, 86.1, 95143.0, 3.1, 2.3)


def test_the_documented_line_is_written_and_read():
    assert str(LINE) == DOCUMENTED
    assert MetricLine.parse(DOCUMENTED) == LINE


def test_what_is_around_it_does_not_matter():
    assert MetricLine.parse(f"12:00 [algo-1/0] {DOCUMENTED} \r\n") == LINE


def test_a_training_without_a_loss_says_none():
    quiet = MetricLine(500, 2, 86.1, 95143.0, 3.1)
    assert "loss" not in str(quiet)
    assert MetricLine.parse(str(quiet)) == quiet
    assert "loss" not in quiet.numbers() and set(quiet.numbers()) | {"loss"} == set(UNITS)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_read_as_that(loss):
    read = MetricLine.parse(str(MetricLine(1, 0, 1.0, 1.0, 1.0, loss)))
    assert read is not None and str(read.loss) == str(loss)


@given(st.builds(MetricLine, *[st.integers(0, 2**53)] * 2, *[st.floats(0, 1e15)] * 3, st.none() | st.floats()))
def test_what_was_written_is_read_back_and_written_the_same(line):
    read = MetricLine.parse(str(line))
    assert read is not None and str(read) == str(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        DOCUMENTED.replace("86.1", "8.6.1"),
        DOCUMENTED.replace("2.3000", "two"),
        DOCUMENTED.replace("500", "9" * 5000),
        DOCUMENTED.replace("epoch=2 ", ""),
        DOCUMENTED[:60],
    ],
)
def test_a_line_that_is_torn_or_another_is_none(line):
    assert MetricLine.parse(line) is None


@given(st.text())
def test_any_text_can_be_asked(text):
    assert MetricLine.parse(text) is None
