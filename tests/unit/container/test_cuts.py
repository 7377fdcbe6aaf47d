from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as some

from tfhet.container.bridge import side_of


def together(cuts: list[frozenset[str]], *hosts: str) -> bool:
    return len({side_of(host, cuts) for host in hosts}) == 1


def test_hosts_of_one_cut_see_each_other_and_no_other_host():
    cuts = [frozenset("ab")]
    assert together(cuts, "a", "b")
    assert together(cuts, "c", "d")
    assert not together(cuts, "a", "c")


def test_hosts_see_each_other_only_when_no_cut_stands_between_them():
    cuts = [frozenset("ab"), frozenset("bc")]
    assert not any(together(cuts, *pair) for pair in ("ab", "bc", "ac", "ad", "bd", "cd"))
    assert together(cuts[1:], "b", "c") and together(cuts[1:], "a", "d")
    assert together([], *"abcd")


def test_the_same_cut_twice_is_healed_twice():
    cuts = [frozenset("a")] * 2
    assert not together(cuts, "a", "b")
    assert not together(cuts[1:], "a", "b")


@given(some.lists(some.frozensets(some.sampled_from("abcd")), max_size=12))
def test_two_hosts_see_each_other_exactly_when_every_standing_cut_holds_both_or_neither(cuts):
    for one, other in itertools.combinations("abcd", 2):
        assert together(cuts, one, other) == all((one in cut) == (other in cut) for cut in cuts)
