"""record/figure.py: a value with its interval and raw samples."""

from __future__ import annotations

import json

import pytest

from tfhet.errors import DataError, UsageError
from tfhet.record import Figure, json_value
from tfhet.schema import from_json


def test_a_figure_keeps_its_samples_in_order_and_says_how_many() -> None:
    figure = Figure.of([3.0, 1.0, 2.0], unit="us")
    assert (figure.value, figure.n, figure.samples) == (2.0, 3, (3.0, 1.0, 2.0))
    assert figure.low <= figure.value <= figure.high


def test_a_ratio_is_the_median_of_the_pairs_and_names_what_it_is_against() -> None:
    figure = Figure.ratio([40.0, 44.0, 41.0], [1.0, 1.1, 1.0], against="the example as written")
    assert figure.value == pytest.approx(40.0)
    assert figure.samples == pytest.approx((40.0, 40.0, 41.0))
    assert (figure.unit, figure.against) == ("x", "the example as written")


def test_a_figure_survives_json() -> None:
    figure = Figure.ratio([4.0, 5.0], [1.0, 1.0], against="x")
    assert from_json(Figure, json.loads(json.dumps(json_value(figure))), "figure") == figure
    assert from_json(Figure, json_value(Figure.single(3, unit="x")), "figure") == Figure.single(3.0, unit="x")


def test_the_json_holds_the_fields_that_scripts_read() -> None:
    held = json_value(Figure.of([1.0], unit="us"))
    assert list(held) == ["value", "low", "high", "unit", "n", "against", "samples", "level"]


def test_a_figure_of_an_older_record_gets_the_interval_that_its_samples_give() -> None:
    older = Figure(2.0, 1.9, 2.1, "us", 3, samples=(1.0, 2.0, 3.0))
    assert older.with_level() == Figure(2.0, 1.0, 3.0, "us", 3, samples=(1.0, 2.0, 3.0), level=0.75)
    worst = Figure(3.0, 1.0, 3.0, "us", 3, samples=(1.0, 2.0, 3.0))  # no median
    assert worst.with_level() == worst
    assert Figure.single(3.0, unit="us").with_level() == Figure.single(3.0, unit="us")


def test_a_share_has_the_interval_of_one() -> None:
    share = Figure.share(39, 40)
    assert (share.value, share.unit, share.n, share.level) == (97.5, "%", 40, 0.95)
    assert 87.0 < share.low < 87.2 and 99.5 < share.high < 99.6


def test_a_broken_figure_is_named() -> None:
    with pytest.raises(DataError, match="'stages.x'.*`high`"):
        from_json(Figure, {"value": 1, "low": 1, "unit": "x", "n": 1}, "figure 'stages.x'")


def test_no_samples_make_no_figure() -> None:
    with pytest.raises(UsageError, match="at least one"):
        Figure.of([], unit="us")
