from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tfhet.container.bridge import Cuts
from tfhet.errors import UsageError


def together(cuts: Cuts, *hosts: str) -> bool:
    return len({cuts.side(host) for host in hosts}) == 1


def test_hosts_of_one_cut_see_each_other_and_nobody_else():
    cuts = Cuts()
    cuts.add(["a", "b"])
    assert together(cuts, "a", "b")
    assert together(cuts, "c", "d")
    assert not together(cuts, "a", "c")


def test_hosts_see_each_other_only_when_no_cut_stands_between_them():
    cuts = Cuts()
    cuts.add(["a", "b"])
    cuts.add(["b", "c"])
    assert not any(together(cuts, *pair) for pair in ("ab", "bc", "ac", "ad", "bd", "cd"))
    cuts.remove(["b", "a"])
    assert together(cuts, "b", "c") and together(cuts, "a", "d")
    cuts.remove(["b", "c"])
    assert together(cuts, *"abcd")


def test_the_same_cut_twice_is_healed_twice():
    cuts = Cuts()
    cuts.add(["a"])
    cuts.add(["a"])
    cuts.remove(["a"])
    assert not together(cuts, "a", "b")
    cuts.remove(["a"])
    assert together(cuts, "a", "b")


def test_what_was_not_cut_cannot_be_healed():
    cuts = Cuts()
    cuts.add(["a", "b"])
    with pytest.raises(UsageError, match="nothing to heal: a was not cut off"):
        cuts.remove(["a"])


@given(some.lists(some.tuples(some.frozensets(some.sampled_from("abcd")), some.booleans()), max_size=12))
def test_two_hosts_see_each_other_exactly_when_every_standing_cut_holds_both_or_neither(changes):
    cuts, standing = Cuts(), []
    for hosts, heals in changes:
        if heals and hosts in standing:
            cuts.remove(hosts)
            standing.remove(hosts)
        else:
            cuts.add(hosts)
            standing.append(hosts)
        for one, other in itertools.combinations("abcd", 2):
            assert together(cuts, one, other) == all((one in cut) == (other in cut) for cut in standing)
