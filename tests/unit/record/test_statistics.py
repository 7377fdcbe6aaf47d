"""record/statistics.py: order statistics and bootstrap intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfhet.errors import UsageError
from tfhet.record.statistics import bootstrap_median, bootstrap_ratio, median, percentile

positive = st.floats(min_value=1e-3, max_value=1e6)


def test_median_and_percentiles_interpolate_between_neighbours() -> None:
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5
    assert percentile([0.0, 10.0], 90) == 9.0


@given(st.lists(positive, min_size=1, max_size=12))
def test_the_interval_of_the_median_holds_it_and_lies_within_the_samples(samples: list[float]) -> None:
    low, high = bootstrap_median(samples)
    assert min(samples) <= low <= high <= max(samples)
    assert low <= median(samples) <= high


def test_the_same_samples_give_the_same_interval() -> None:
    samples = list(np.random.default_rng(1).normal(10, 1, 50))
    assert bootstrap_median(samples) == bootstrap_median(samples)


def test_the_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        low, high = bootstrap_median(generator.normal(0, 1, 25).tolist())
        hits += low <= 0 <= high
    assert 0.88 <= hits / 200 <= 1.0


def test_a_drift_that_touches_both_of_a_pair_does_not_widen_the_ratio() -> None:
    drift = np.linspace(1, 4, 9)
    low, high = bootstrap_ratio((10 * drift).tolist(), drift.tolist())
    assert low == pytest.approx(10) and high == pytest.approx(10)


def test_one_sample_is_its_own_interval() -> None:
    assert bootstrap_median([3.0]) == (3.0, 3.0)
    assert bootstrap_ratio([6.0], [2.0]) == (3.0, 3.0)


def test_very_many_samples_stay_affordable() -> None:
    low, high = bootstrap_median([float(value) for value in range(20_001)])
    assert low < 10_000 < high


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: median([]), "at least one number"),
        (lambda: bootstrap_ratio([1.0], [1.0, 2.0]), "differ in number: 1 and 2"),
        (lambda: bootstrap_ratio([1.0, 1.0], [1.0, 0.0]), "not positive"),
    ],
)
def test_what_has_no_answer_is_wrong_use(call: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()  # type: ignore[operator]
