"""record/figure.py: a value with its interval and raw samples."""

from __future__ import annotations

import json

import pytest

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


def test_a_share_has_the_interval_of_one() -> None:
    share = Figure.share(39, 40)
    assert (share.value, share.unit, share.n, share.level) == (97.5, "%", 40, 0.95)
    assert 87.0 < share.low < 87.2 and 99.5 < share.high < 99.6
