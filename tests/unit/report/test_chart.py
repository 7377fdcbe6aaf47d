"""report/chart.py: the geometry of one line or several over steps, epochs or seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tfhet.report.chart import BUCKETS, LINES, Axis, LineChart, Points, line_chart, nice_ticks


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_ticks_are_few_even_and_reach_the_top(high: float) -> None:
    ticks = nice_ticks(high)
    assert ticks[0] == 0 and ticks[-1] >= high * (1 - 1e-6)
    assert 2 <= len(ticks) <= 6


@given(st.floats(min_value=-1e12, max_value=1e12), st.floats(min_value=1e-3, max_value=1e12))
def test_ticks_enclose_an_axis_that_does_not_begin_at_0(low: float, span: float) -> None:
    ticks = nice_ticks(low + span, low=low)
    assert ticks[0] <= low + 1e-6 * span and ticks[-1] >= low + span * (1 - 1e-6)
    assert all(0 <= tick.at <= 100 for tick in Axis(low, low + span).round_ticks())


def alone(samples: Sequence[float], unit: str = "ms", **rest: Any) -> LineChart | None:
    """The chart of one line over steps."""
    return line_chart("t", unit, {"": list(enumerate(samples, 1))}, **rest)


def test_every_step_is_a_point_and_tells_its_value() -> None:
    chart = alone([10.0, 20.0, 10.0])
    assert chart is not None
    assert chart.lines == {"": [(0.0, 50.0, 0.0, 50.0), (50.0, 100.0, 0.0, 100.0), (100.0, 50.0, 0.0, 50.0)]}
    assert [words for _, _, words in chart.spots] == ["step 1: 10.0 ms", "step 2: 20.0 ms", "step 3: 10.0 ms"]
    assert [tick.label for tick in chart.y_ticks] == ["0", "5", "10", "15", "20"]
    assert [tick.label for tick in chart.x_ticks] == ["1", "2", "3"]
    assert (chart.median, chart.words) == (50.0, {"": "median 10.0 ms"}) and chart.note == ""
    assert chart.described == "t over 3 steps: median 10.0 ms, highest 20.0 ms."


def test_many_steps_become_buckets_with_a_band() -> None:
    chart = alone([float(index % 7) + 1 for index in range(100_000)])
    assert chart is not None
    assert len(chart.lines[""]) == len(chart.spots) == BUCKETS
    assert "band" in chart.note and all(low < y < high for _, y, low, high in chart.lines[""])
    assert chart.spots[1][2] == "steps 401 to 800, median: 4.00 ms"
    assert [tick.label for tick in chart.x_ticks] == ["20,000", "40,000", "60,000", "80,000", "100,000"]


def test_one_slow_step_does_not_flatten_the_others_and_is_named() -> None:
    chart = alone([10.0] * 30 + [900.0])
    assert chart is not None
    assert float(chart.y_ticks[-1].label) <= 40
    assert "1 step above the axis, the highest 900 ms" in chart.note


def test_a_share_runs_from_nothing_to_all() -> None:
    chart = alone([0.0, 0.0], "%")
    assert chart is not None
    assert [tick.label for tick in chart.y_ticks] == ["0", "25", "50", "75", "100"]


def test_what_stands_out_is_marked_and_counted() -> None:
    chart = alone([1.0] * 11, "%", marks={"epoch starts": (6, 11), "stalls": (1,), "none": (99,)})
    assert chart is not None
    assert [(tick.at, tick.label) for tick in chart.marks] == [
        (50.0, "epoch starts"),
        (100.0, "epoch starts"),
        (0.0, "stalls"),
    ]
    assert "marked: epoch starts (2), stalls (1), none (0)" in chart.note


@pytest.mark.parametrize("samples", [[], [math.nan]])
def test_nothing_to_draw_is_no_chart(samples: list[float]) -> None:
    assert alone(samples) is None


def test_one_step_lies_in_the_middle_and_lost_ones_are_counted() -> None:
    chart = alone([math.inf, 5.0])
    assert chart is not None
    assert [point[:2] for point in chart.lines[""]] == [(50.0, pytest.approx(100.0 * 5 / 6))]
    assert [tick.label for tick in chart.x_ticks] == ["2"] and chart.spots == [(0.0, 100.0, "step 2: 5.00 ms")]
    assert "1 steps without a finite value" in chart.note


def test_several_lines_share_the_axes_and_tell_all_values_of_a_place() -> None:
    chart = line_chart("t", "ms", {"a": [(1, 12.0), (2, 12.0)], "b": [(2, 14.0), (3, 40.0)], "none": []})
    assert chart is not None
    assert [words for _, _, words in chart.spots] == [
        "step 1: a 12.0 ms, b –",
        "step 2: a 12.0 ms, b 14.0 ms",
        "step 3: a –, b 40.0 ms",
    ]
    assert [x for x, *_ in chart.lines["a"]] == [0.0, 50.0] and [x for x, *_ in chart.lines["b"]] == [50.0, 100.0]
    assert chart.words == {"a": "median 12.0 ms", "b": "median 27.0 ms"} and chart.median is None
    assert chart.note == "left out: none"


def test_a_slow_line_is_not_cut_because_another_one_has_more_steps() -> None:
    chart = line_chart("t", "ms", {"fast": [(at, 10.0) for at in range(500)], "slow": [(1, 90.0), (2, 90.0)]})
    assert chart is not None
    assert chart.y_ticks[-1].label == "100" and "above" not in chart.note
    assert "lines: median of neighbouring steps" in chart.note and "band" not in chart.note


def test_lines_beyond_the_colours_are_named() -> None:
    chart = line_chart("t", "", {f"line-{number}": [(1, 1.0)] for number in range(LINES + 2)})
    assert chart is not None
    assert len(chart.lines) == LINES and chart.note == "left out: line-8, line-9"


def test_an_epoch_alone_is_no_line_and_losses_may_be_negative() -> None:
    assert line_chart("t", "", {"loss": [(0, 1.0)]}, x="epoch") is None
    chart = line_chart("t", "", {"loss": [(3, 1.0), (4, -0.5)]}, x="epoch")
    assert chart is not None
    assert [tick.label for tick in chart.y_ticks] == ["-0.5", "0", "0.5", "1"]
    assert [words for _, _, words in chart.spots] == ["epoch 3: loss 1.00", "epoch 4: loss -0.500"]
    assert chart.words == {"loss": "last -0.500"} and chart.median is None


NUMBER = st.floats() | st.integers(-100, 100).map(float)
POINTS: st.SearchStrategy[Points] = st.lists(st.tuples(st.integers(-(2**63), 2**63) | st.integers(0, 9), NUMBER))


@given(st.dictionaries(st.text(max_size=3), POINTS, max_size=10), st.sampled_from(["step", "epoch", "second"]))
def test_no_line_leaves_its_chart(lines: dict[str, Points], x: str) -> None:
    chart = line_chart("t", "", lines, x=x)
    for points in chart.lines.values() if chart else ():
        assert all(0 <= place <= 100 for point in points for place in point)
        assert len(points) <= BUCKETS and points == sorted(points, key=lambda point: point[0])
    for left, width, _ in chart.spots if chart else ():
        assert left >= 0 and width > 0 and left + width <= 100.001
