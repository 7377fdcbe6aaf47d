"""record/statistics.py: order statistics and their intervals."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tfhet.errors import UsageError
from tfhet.record.statistics import median, median_interval, percentile, ratios, share_interval

positive = st.floats(min_value=1e-3, max_value=1e6)


def test_median_and_percentiles_interpolate_between_neighbours() -> None:
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5
    assert percentile([0.0, 10.0], 90) == 9.0


@given(st.lists(positive, min_size=1, max_size=12))
def test_the_interval_of_the_median_holds_it_and_lies_within_the_samples(samples: list[float]) -> None:
    low, high, level = median_interval(samples)
    assert min(samples) <= low <= median(samples) <= high <= max(samples)
    assert 0.0 <= level < 1.0


@pytest.mark.parametrize(
    ("count", "left_out", "level"),
    # Conover, table A3: the binomial with one half.
    [(1, 0, 0.0), (2, 0, 0.5), (3, 0, 0.75), (5, 0, 0.9375), (6, 0, 0.96875), (10, 1, 0.978515625), (25, 7, 0.9567)],
)
def test_the_level_is_that_of_the_binomial(count: int, left_out: int, level: float) -> None:
    low, high, found = median_interval([float(index) for index in range(count)])
    assert (low, high) == (left_out, count - 1 - left_out)
    assert found == pytest.approx(level, abs=5e-5)


def test_the_share_of_all_cases_is_not_said_to_be_certain() -> None:
    assert share_interval(39, 40) == pytest.approx((0.8712, 0.9956), abs=1e-4)
    assert share_interval(40, 40) == pytest.approx((0.9124, 1.0), abs=1e-4)
    assert share_interval(0, 200) == pytest.approx((0.0, 0.0188), abs=1e-4)


def test_very_many_samples_stay_affordable() -> None:
    low, high, _ = median_interval([float(value) for value in range(20_001)])
    assert low < 10_000 < high


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: median([]), "at least one number"),
        (lambda: ratios([1.0], [1.0, 2.0]), "differ in number: 1 and 2"),
        (lambda: share_interval(3, 2), "got 3 of 2"),
        (lambda: ratios([1.0, 1.0], [1.0, 0.0]), "not positive"),
    ],
)
def test_what_has_no_answer_is_wrong_use(call: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()  # type: ignore[operator]
