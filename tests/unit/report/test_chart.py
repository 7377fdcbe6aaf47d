"""report/chart.py: the geometry of lines over steps, epochs or seconds, and of bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tfhet.record import Figure
from tfhet.report.chart import (
    BUCKETS,
    LINES,
    Axis,
    BarChart,
    LineChart,
    Points,
    bar_chart,
    ends,
    in_words,
    line_chart,
    nice_ticks,
)


@given(st.just(0.0) | st.floats(min_value=-1e12, max_value=1e12), st.floats(min_value=1e-9, max_value=1e12))
def test_ticks_are_few_and_enclose_the_axis(low: float, span: float) -> None:
    high = low + max(span, 1e-9 * abs(low))
    rounding = 1e-6 * (high - low) + 4 * math.ulp(max(abs(low), abs(high)))  # a tick is a product of floats
    ticks = nice_ticks(high, low=low)
    assert ticks[0] <= low + rounding and ticks[-1] >= high - rounding
    assert 2 <= len(ticks) <= 7 and all(0 <= tick.at <= 100 for tick in Axis(low, high).round_ticks())


def alone(samples: Sequence[float], unit: str = "ms", **rest: Any) -> LineChart:
    """The chart of one line over steps."""
    chart = line_chart("t", unit, {"": list(enumerate(samples, 1))}, **rest)
    assert chart is not None
    return chart


def test_each_step_is_a_point_with_tooltip() -> None:
    chart = alone([10.0, 20.0, 10.0])
    assert chart.lines == {"": [(0.0, 50.0, 0.0, 50.0), (50.0, 100.0, 0.0, 100.0), (100.0, 50.0, 0.0, 50.0)]}
    assert [words for _, _, words in chart.spots] == ["step 1: 10.0 ms", "step 2: 20.0 ms", "step 3: 10.0 ms"]
    assert [tick.label for tick in chart.y_ticks] == ["0", "5", "10", "15", "20"]
    assert [tick.label for tick in chart.x_ticks] == ["1", "2", "3"]
    assert (chart.median, chart.words, chart.note) == (50.0, {"": "median 10.0 ms"}, "")


def test_many_steps_become_buckets_with_band() -> None:
    chart = alone([float(index % 7) + 1 for index in range(10_000)])
    assert len(chart.lines[""]) == len(chart.spots) == BUCKETS
    assert "band" in chart.note and all(low < y < high for _, y, low, high in chart.lines[""])
    assert chart.spots[1][2] == "steps 41 to 80, median: 4.00 ms"


def test_slow_step_does_not_flatten_the_others() -> None:
    chart = alone([10.0] * 30 + [900.0])
    assert float(chart.y_ticks[-1].label) <= 40 and "900 ms" in chart.note


def test_percent_axis_ends_at_100() -> None:
    assert [tick.label for tick in alone([0.0, 0.0], "%").y_ticks] == ["0", "25", "50", "75", "100"]


def test_marks_inside_the_chart_are_drawn() -> None:
    chart = alone([1.0] * 11, "%", marks={"epoch starts": (6, 11), "stalls": (1,), "none": (99,)})
    marks = [(50.0, "epoch starts"), (100.0, "epoch starts"), (0.0, "stalls")]
    assert [(tick.at, tick.label) for tick in chart.marks] == marks


@pytest.mark.parametrize("samples", [[], [math.nan]])
def test_no_finite_value_is_no_chart(samples: list[float]) -> None:
    assert line_chart("t", "ms", {"": list(enumerate(samples))}) is None


def test_single_step_is_in_the_middle() -> None:
    chart = alone([math.inf, 5.0])
    assert [point[:2] for point in chart.lines[""]] == [(50.0, pytest.approx(100.0 * 5 / 6))]
    assert [tick.label for tick in chart.x_ticks] == ["2"] and chart.spots == [(0.0, 100.0, "step 2: 5.00 ms")]


def test_several_lines_share_axes_and_tooltips() -> None:
    chart = line_chart("t", "ms", {"a": [(1, 12.0), (2, 12.0)], "b": [(2, 14.0), (3, 40.0)], "none": []})
    assert chart is not None
    assert [words for _, _, words in chart.spots] == [
        "step 1: a 12.0 ms, b –",
        "step 2: a 12.0 ms, b 14.0 ms",
        "step 3: a –, b 40.0 ms",
    ]
    assert [x for x, *_ in chart.lines["a"]] == [0.0, 50.0] and [x for x, *_ in chart.lines["b"]] == [50.0, 100.0]
    assert chart.words == {"a": "median 12.0 ms", "b": "median 27.0 ms"} and chart.median is None
    assert chart.note.endswith("none")


def test_short_slow_line_is_not_cut() -> None:
    chart = line_chart("t", "ms", {"fast": [(at, 10.0) for at in range(500)], "slow": [(1, 90.0), (2, 90.0)]})
    assert chart is not None and chart.y_ticks[-1].label == "100" and "band" not in chart.note


def test_lines_beyond_the_colours_are_omitted() -> None:
    chart = line_chart("t", "", {f"line-{number}": [(1, 1.0)] for number in range(LINES + 2)})
    assert chart is not None and len(chart.lines) == LINES and "line-8, line-9" in chart.note


def test_single_epoch_is_no_line() -> None:
    assert line_chart("t", "", {"loss": [(0, 1.0)]}, x="epoch") is None
    chart = line_chart("t", "", {"loss": [(3, 1.0), (4, -0.5)]}, x="epoch")
    assert chart is not None
    assert [tick.label for tick in chart.y_ticks] == ["-0.5", "0", "0.5", "1"]
    assert chart.words == {"loss": "last -0.500"} and chart.median is None


NUMBER = st.floats() | st.integers(-100, 100).map(float)
POINTS: st.SearchStrategy[Points] = st.lists(
    st.tuples(st.integers(-(2**63), 2**63) | st.integers(0, 9), NUMBER), max_size=9
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=3), POINTS, max_size=10), st.sampled_from(["step", "epoch", "second"]))
def test_no_line_leaves_its_chart(lines: dict[str, Points], x: str) -> None:
    chart = line_chart("t", "", lines, x=x)
    for points in chart.lines.values() if chart else ():
        assert all(0 <= place <= 100 for point in points for place in point)
        assert len(points) <= BUCKETS and points == sorted(points, key=lambda point: point[0])
    for left, width, _ in chart.spots if chart else ():
        assert left >= 0 and width > 0 and left + width <= 100.001


def figure(value: float, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(value, value if low is None else low, value if high is None else high, "us", 5)


def bars(**figures: Figure) -> BarChart:
    chart = bar_chart("t", figures)
    assert chart is not None
    return chart


def lengths(chart: BarChart) -> list[float]:
    return [chart.axis.at(figure.value) for figure in chart.figures.values()]


def test_bars_show_values_and_intervals() -> None:
    chart = bars(a=figure(5.0, 4.0, 8.0), b=figure(10.0))
    a, b = chart.figures.values()
    assert chart.axis.at(0) == 0.0 and lengths(chart) == [50.0, 100.0]
    assert [chart.axis.at(end) for end in ends(a)] == [40.0, 80.0] and ends(b) == (10.0, 10.0)
    assert [tick.label for tick in chart.ticks] == ["0", "5", "10"]
    assert in_words(a, "a") == "a: 5.00 us, interval 4.00 to 8.00, 5 samples"


def test_negative_bar_extends_to_the_left() -> None:
    chart = bars(a=figure(-1.0), b=figure(3.0))
    assert chart.axis.at(0) == 25.0 and lengths(chart) == [0.0, 100.0]


def test_bars_without_finite_value_are_omitted() -> None:
    assert list(bars(a=figure(math.nan), b=figure(1.0)).figures) == ["b"]
    assert bar_chart("t", {"a": figure(math.inf)}) is None


@given(st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=6))
def test_no_bar_leaves_its_chart(values) -> None:
    chart = bar_chart("t", {str(place): figure(*some) for place, some in enumerate(values)})
    for each in chart.figures.values() if chart else ():
        drawn = (0.0, each.value, *ends(each))
        assert all(chart.axis.low <= value <= chart.axis.high for value in drawn), each
        assert ends(each)[0] <= ends(each)[1]
    if chart:
        marks = sorted((each.value, chart.axis.at(each.value)) for each in chart.figures.values())
        assert [at for _, at in marks] == sorted(at for _, at in marks)
