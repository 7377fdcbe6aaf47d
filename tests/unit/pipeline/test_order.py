"""The order of an epoch is a permutation that the seed and the epoch determine, without memory per example."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as some

from tfhet.pipeline import EpochOrder
from tfhet.pipeline.order import TABLE, key, permuted

SIZES = some.lists(some.integers(0, 40), min_size=1, max_size=6)


@settings(max_examples=100)
@given(SIZES, some.sampled_from([False, True, 2, 7]), some.booleans(), some.integers(0, 9), some.integers(0, 9))
def test_every_place_comes_once_in_any_cut(sizes, shuffle, shuffle_splits, seed, epoch):
    order = EpochOrder(sizes, shuffle=shuffle, shuffle_splits=shuffle_splits, seed=seed, epoch=epoch)
    whole = order[0 : len(order)]
    assert sorted(whole.tolist()) == list(range(sum(sizes)))
    parts = [order[begin : begin + 3] for begin in range(0, len(order), 3)]
    np.testing.assert_array_equal(np.concatenate([*parts, whole[:0]]), whole)


@pytest.mark.parametrize("size", [TABLE, TABLE + 1, 5 * TABLE + 3, 1_000_003])
def test_large_orders_are_permutations(size):
    whole = EpochOrder((size,), shuffle=True, seed=1)[0:size]
    np.testing.assert_array_equal(np.sort(whole), np.arange(size))
    # Neighbours are as far from each other as independent numbers, and no trace of the order is left.
    assert abs(np.corrcoef(whole[:-1], whole[1:])[0, 1]) < 5 / np.sqrt(size)
    assert abs(np.corrcoef(np.arange(size), whole)[0, 1]) < 5 / np.sqrt(size)
    counts = np.histogram(whole[: size // 2], 50)[0]
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 49 + 5 * np.sqrt(2 * 49)


def test_seed_and_epoch_determine_the_order():
    drawn = {
        EpochOrder((1000,), shuffle=True, seed=seed, epoch=epoch)[0:5].tobytes()
        for seed, epoch in [(0, 0), (0, 1), (1, 0)]
    }
    assert len(drawn) == 3
    again = [EpochOrder((100_000,), shuffle=True, seed=3, epoch=2)[7:9].tolist() for _ in range(2)]
    assert again[0] == again[1]


def test_small_permutations_are_all_drawn_equally_often():
    drawn = Counter(tuple(permuted(np.arange(3), 3, key(0, epoch, "")).tolist()) for epoch in range(6000))
    assert len(drawn) == 6
    assert sum((count - 1000) ** 2 / 1000 for count in drawn.values()) < 5 + 5 * np.sqrt(2 * 5)


def test_windows_and_splits():
    order = EpochOrder((30, 30), shuffle=10, shuffle_splits=False, seed=1)
    whole = order[0:60]
    assert whole.tolist() != list(range(60))
    for begin in range(0, 60, 10):
        assert sorted(whole[begin : begin + 10].tolist()) == list(range(begin, begin + 10))
    splits = {tuple(EpochOrder((2, 3, 1), seed=seed)[0:6].tolist()) for seed in range(50)}
    assert splits == {
        (0, 1, 2, 3, 4, 5),
        (0, 1, 5, 2, 3, 4),
        (2, 3, 4, 0, 1, 5),
        (2, 3, 4, 5, 0, 1),
        (5, 0, 1, 2, 3, 4),
        (5, 2, 3, 4, 0, 1),
    }
    assert EpochOrder((2, 3), shuffle_splits=False)[1:4].tolist() == [1, 2, 3]
    assert len(EpochOrder(())) == 0 and EpochOrder((0,), shuffle=True)[0:5].size == 0
