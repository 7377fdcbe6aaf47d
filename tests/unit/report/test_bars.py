"""report/bars.py: the geometry of bars."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tfhet.record import Figure
from tfhet.report.bars import bar_chart

NUMBER = st.floats(allow_nan=True, allow_infinity=True)


def figure(value: float, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(value, value if low is None else low, value if high is None else high, "us", 5)


def test_a_bar_is_as_long_as_its_value_and_its_whisker_as_its_interval() -> None:
    chart = bar_chart("t", {"a": figure(5.0, 4.0, 8.0), "b": figure(10.0)})
    a, b = chart.bars
    assert (chart.zero, a.at, a.low, a.high) == (0.0, 50.0, 40.0, 80.0)
    assert b.at == 100.0 and b.low == b.high
    assert [tick.label for tick in chart.ticks] == ["0", "5", "10"]
    assert a.value == "5.00 us" and "95 % interval 4.00 to 8.00" in a.words
    assert chart.note == "whiskers: 95 % interval of the median"


def test_a_value_below_zero_goes_to_the_left_of_it() -> None:
    chart = bar_chart("t", {"a": figure(-1.0), "b": figure(3.0)})
    below, above = chart.bars
    assert (below.at, chart.zero, above.at) == (0.0, 25.0, 100.0)


def test_what_is_not_finite_is_left_out_and_counted() -> None:
    assert "1 without a finite value left out" in bar_chart("t", {"a": figure(math.nan), "b": figure(1.0)}).note
    assert bar_chart("t", {"a": figure(math.inf)}) is None


@given(st.lists(st.tuples(NUMBER, NUMBER, NUMBER), max_size=6))
def test_nothing_is_drawn_outside_its_box_and_a_longer_bar_is_never_a_smaller_value(values) -> None:
    chart = bar_chart("t", {str(place): figure(*some) for place, some in enumerate(values)})
    for bar in chart.bars if chart else ():
        assert all(0 <= place <= 100 for place in (bar.at, bar.low, bar.high, chart.zero or 0.0)), bar
        assert bar.low <= bar.high
    if chart:
        drawn = sorted((values[int(bar.name)][0], bar.at) for bar in chart.bars)
        assert [at for _, at in drawn] == sorted(at for _, at in drawn)
