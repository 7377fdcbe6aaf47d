"""report/bars.py: the geometry of bars."""

from __future__ import annotations

import math

from hypothesis import given, strategies as st

from tfhet.record import Figure
from tfhet.report.bars import BarChart, bar_chart, ends, in_words

NUMBER = st.floats(allow_nan=True, allow_infinity=True)


def figure(value: float, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(value, value if low is None else low, value if high is None else high, "us", 5)


def places(chart: BarChart) -> list[float]:
    """The ends of the bars, on the axis."""
    return [chart.axis.at(figure.value) for figure in chart.figures.values()]


def test_a_bar_is_as_long_as_its_value_and_its_whisker_as_its_interval() -> None:
    chart = bar_chart("t", {"a": figure(5.0, 4.0, 8.0), "b": figure(10.0)})
    a, b = chart.figures.values()
    assert chart.axis.at(0) == 0.0 and places(chart) == [50.0, 100.0]
    assert [chart.axis.at(end) for end in ends(a)] == [40.0, 80.0] and ends(b) == (10.0, 10.0)
    assert [tick.label for tick in chart.ticks] == ["0", "5", "10"]
    assert in_words(a, "a") == "a: 5.00 us, interval 4.00 to 8.00, 5 samples"
    assert chart.note == "whiskers: interval of the median"


def test_a_value_below_zero_goes_to_the_left_of_it() -> None:
    chart = bar_chart("t", {"a": figure(-1.0), "b": figure(3.0)})
    assert chart.axis.at(0) == 25.0 and places(chart) == [0.0, 100.0]


def test_what_is_not_finite_is_left_out_and_counted() -> None:
    assert "1 without a finite value left out" in bar_chart("t", {"a": figure(math.nan), "b": figure(1.0)}).note
    assert bar_chart("t", {"a": figure(math.inf)}) is None


@given(st.lists(st.tuples(NUMBER, NUMBER, NUMBER), max_size=6))
def test_nothing_is_drawn_outside_its_box_and_a_longer_bar_is_never_a_smaller_value(values) -> None:
    chart = bar_chart("t", {str(place): figure(*some) for place, some in enumerate(values)})
    for each in chart.figures.values() if chart else ():
        drawn = (0.0, each.value, *ends(each))
        assert all(chart.axis.low <= value <= chart.axis.high for value in drawn), each
        assert all(0 <= chart.axis.at(value) <= 100 for value in drawn), each
        assert ends(each)[0] <= ends(each)[1]
    if chart:
        marks = sorted((each.value, chart.axis.at(each.value)) for each in chart.figures.values())
        assert [at for _, at in marks] == sorted(at for _, at in marks)
