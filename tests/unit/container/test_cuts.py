from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as some

from tfhet.container.bridge import Partition

PAIRS = list(itertools.permutations("abc", 2))


@pytest.mark.parametrize(
    ("way", "held"),
    [("", {"ac", "ca", "bc", "cb"}), ("in", {"ca", "cb"}), ("out", {"ac", "bc"})],
)
def test_a_cut_holds_what_crosses_it_both_ways_or_one(way: str, held: set[str]):
    cut = Partition(frozenset("ab"), way)
    assert {one + other for one, other in PAIRS if cut.holds(one, other)} == held


@given(some.frozensets(some.sampled_from("abcd")))
def test_a_cut_of_both_ways_is_one_of_each_way(hosts: frozenset[str]):
    for pair in itertools.permutations("abcd", 2):
        assert Partition(hosts).holds(*pair) == any(Partition(hosts, way).holds(*pair) for way in ("in", "out"))
