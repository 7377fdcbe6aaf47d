"""record/figure.py: a value with its interval and raw samples."""

from __future__ import annotations

import json

import pytest

from tfhet.errors import DataError, UsageError
from tfhet.record import Figure, from_json_object, json_value


def test_a_figure_keeps_its_samples_in_order_and_says_how_many() -> None:
    figure = Figure.of([3.0, 1.0, 2.0], unit="us")
    assert (figure.value, figure.n, figure.samples) == (2.0, 3, (3.0, 1.0, 2.0))
    assert figure.low <= figure.value <= figure.high


def test_a_ratio_is_of_the_medians_and_names_what_it_is_against() -> None:
    figure = Figure.ratio([40.0, 44.0, 41.0], [1.0, 1.1, 1.0], against="the example as written")
    assert figure.value == pytest.approx(41.0)
    assert figure.samples == pytest.approx((40.0, 40.0, 41.0))
    assert (figure.unit, figure.against) == ("x", "the example as written")


def test_a_figure_survives_json() -> None:
    figure = Figure.ratio([4.0, 5.0], [1.0, 1.0], against="x")
    assert from_json_object(Figure, json.loads(json.dumps(json_value(figure))), "figure") == figure
    assert from_json_object(Figure, Figure.single(3, unit="x").to_json(), "figure") == Figure.single(3.0, unit="x")


def test_the_json_holds_the_fields_that_scripts_read() -> None:
    held = Figure.of([1.0], unit="us").to_json()
    assert list(held) == ["value", "low", "high", "unit", "n", "against", "samples"]


def test_a_broken_figure_is_named() -> None:
    with pytest.raises(DataError, match=r"'stages.x'.*`high` is missing"):
        from_json_object(Figure, {"value": 1, "low": 1, "unit": "x", "n": 1}, "figure 'stages.x'")


def test_no_samples_make_no_figure() -> None:
    with pytest.raises(UsageError, match="at least one"):
        Figure.of([], unit="us")
