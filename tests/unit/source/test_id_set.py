"""Sets of ids as bits hold what sets of numbers hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tfhet.source import IdSet, example_id

PLACES = st.integers(0, 3), st.one_of(st.integers(0, 70), st.integers(500, 530), st.integers(65_500, 65_600))
IDS = st.lists(st.builds(example_id, *PLACES), max_size=40)


@given(IDS, IDS)
def test_sets_are_joined_subtracted_and_counted(some: list[int], others: list[int]):
    one, other = IdSet.of(some), IdSet.of(others)
    assert one.ids().tolist() == sorted(set(some)) and one.ids().dtype == np.int64
    assert IdSet.union(one, other).ids().tolist() == sorted({*some, *others})
    assert (one - other).ids().tolist() == sorted(set(some) - set(others))
    assert one.per_split(4).tolist() == [sum(number >> 32 == split for number in set(some)) for split in range(4)]


@given(IDS, st.lists(st.sampled_from([0, 1, 63, 511, 512, 513, 1030]), min_size=4, max_size=4))
def test_first_gap_of_each_split_is_found(ids: list[int], prefixes: list[int]):
    every = {*ids, *(example_id(split, place) for split, size in enumerate(prefixes) for place in range(size))}
    firsts, rest = IdSet.of(sorted(every)).beyond_gaps(5)
    for split, first in enumerate(firsts):
        assert example_id(split, int(first)) not in every
        assert all(example_id(split, place) in every for place in range(first))
    kept = set(rest.ids().tolist())
    assert kept <= every
    assert {one for one in every if one & 0xFFFFFFFF > firsts[one >> 32]} <= kept
    assert len(rest.table) <= 4 * len(ids) + 5


@pytest.mark.parametrize("sizes", [(0, 1, 63, 64, 65), (512, 511, 513, 0), (65_536, 65_537, 200_000)])
def test_whole_splits_are_all_their_ids(sizes: tuple[int, ...]):
    every = np.concatenate([example_id(split, 0) + np.arange(size) for split, size in enumerate(sizes)])
    splits = np.arange(len(sizes))
    found = IdSet.whole(splits, np.array(sizes), lambda blocks: blocks >= 0)
    np.testing.assert_array_equal(found.ids(), every)
    odd = IdSet.whole(splits, np.array(sizes), lambda blocks: blocks % 2 == 1)
    np.testing.assert_array_equal(odd.ids(), every[(every >> 16) % 2 == 1])


def test_last_ids_are_kept():
    ids = [63, 511, example_id(2**31 - 1, 2**32 - 1)]
    assert IdSet.of(ids).ids().tolist() == ids


def test_neighbours_share_a_row():
    assert IdSet.of(range(1024)).table.nbytes == 2 * 72
    assert IdSet.of(range(0, 1024, 512)).table.nbytes == 2 * 72
