"""report/chart.py: the geometry of a line over steps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfhet.report.chart import BUCKETS, line_chart, nice_ticks


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_ticks_are_few_even_and_reach_the_top(high: float) -> None:
    ticks = nice_ticks(high)
    assert ticks[0] == 0 and ticks[-1] >= high * (1 - 1e-6)
    assert 2 <= len(ticks) <= 6


def test_every_step_is_a_point_and_tells_its_value() -> None:
    chart = line_chart("Step time (ms)", [10.0, 20.0, 10.0], "ms")
    assert chart is not None
    assert [(spot.x, spot.y, spot.low, spot.high) for spot in chart.spots] == [
        (0.0, 50.0, 0.0, 50.0),
        (50.0, 100.0, 0.0, 100.0),
        (100.0, 50.0, 0.0, 50.0),
    ]
    assert [spot.words for spot in chart.spots] == ["step 1: 10.0 ms", "step 2: 20.0 ms", "step 3: 10.0 ms"]
    assert [tick.label for tick in chart.y_ticks] == ["0", "5", "10", "15", "20"]
    assert [tick.label for tick in chart.x_ticks] == ["1", "2", "3"]
    assert (chart.median, chart.median_words) == (50.0, "10.0 ms") and chart.note == ""


def test_many_steps_become_buckets_with_a_band() -> None:
    chart = line_chart("t", [float(index % 7) + 1 for index in range(100_000)], "ms")
    assert chart is not None
    assert len(chart.spots) == BUCKETS
    assert "band" in chart.note and all(spot.low < spot.y < spot.high for spot in chart.spots)


def test_one_slow_step_does_not_flatten_the_others_and_is_named() -> None:
    chart = line_chart("t", [10.0] * 30 + [900.0], "ms")
    assert chart is not None
    assert float(chart.y_ticks[-1].label) <= 40
    assert "1 step above the axis, the highest 900 ms" in chart.note


def test_a_share_runs_from_nothing_to_all() -> None:
    chart = line_chart("w", [0.0, 0.0], "%", top=100.0)
    assert chart is not None
    assert [tick.label for tick in chart.y_ticks] == ["0", "25", "50", "75", "100"]


def test_what_stands_out_is_marked_and_counted() -> None:
    chart = line_chart("w", [1.0] * 11, "%", top=100.0, marks={"epoch starts": (5, 10), "stalls": (0,), "none": (99,)})
    assert chart is not None
    assert [(tick.at, tick.label) for tick in chart.marks] == [
        (50.0, "epoch starts"),
        (100.0, "epoch starts"),
        (0.0, "stalls"),
    ]
    assert "marked: epoch starts (2), stalls (1), none (0)" in chart.note


@pytest.mark.parametrize("samples", [[], [math.nan]])
def test_nothing_to_draw_is_no_chart(samples: list[float]) -> None:
    assert line_chart("t", samples, "ms") is None


def test_one_step_lies_in_the_middle_and_lost_ones_are_counted() -> None:
    chart = line_chart("t", [math.inf, 5.0], "ms")
    assert chart is not None
    assert [(spot.x, spot.y) for spot in chart.spots] == [(50.0, pytest.approx(100.0 * 5 / 6))]
    assert [tick.label for tick in chart.x_ticks] == ["2"]
    assert "1 steps without a finite value" in chart.note
