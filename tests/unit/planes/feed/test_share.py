"""The share of a rank: whatever the shards' lengths and whichever servers are lost, all ranks get as many batches."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as some

from tfhet.planes.feed.production import Over, Wish
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import Shard
from tfhet.planes.feed.taken import Taken, expanded


def answer(lengths: list[int], wish: Wish) -> Over | None:
    """A server's answer to a wish: None stands for the batch."""
    length = lengths[wish.shard.index]
    return Over(length) if wish.round_end > length else None


def read(shares: list[Share], lengths: list[int], draw: random.Random, losses: int = 0) -> list[list[tuple[int, int]]]:
    """The batches that each rank receives when answers come in any order, and servers are lost and found."""
    got: list[list[tuple[int, int]]] = [[] for _ in shares]
    waiting: list[tuple[int, int, Wish]] = []
    servers, gone = shares[0].servers, set[int]()
    for _ in range(10_000):
        for rank, share in enumerate(shares):
            for server in set(range(servers)) - gone:
                free = 3 - sum(one[:2] == (rank, server) for one in waiting)
                waiting += [(rank, server, wish) for wish in share.wishes(server, draw.randint(0, free))]
        if losses and draw.random() < 0.1 and (left := sorted(set(range(servers)) - gone)):
            losses -= 1
            lost = draw.choice(left)
            gone.add(lost)
            waiting = [one for one in waiting if one[1] != lost]
            for share in shares:
                share.lost(lost)
        if gone and (draw.random() < 0.3 or len(gone) == servers):
            back = gone.pop()
            for share in shares:
                share.found(back)
        if not waiting:
            if all(share.is_whole for share in shares):
                return got
            continue
        rank, _, wish = waiting.pop(draw.randrange(len(waiting)))
        ask, over = (wish.shard.index, wish.number, wish.is_rest), answer(lengths, wish)
        if over is not None:
            shares[rank].is_over(ask, over.batches)
        elif shares[rank].came(ask):
            shares[rank].taken.add(ask[:2])
            got[rank].append(ask[:2])
    raise AssertionError("the ranks do not come to an end")


@settings(max_examples=150)
@given(
    some.lists(some.integers(0, 13), min_size=1, max_size=5),
    some.integers(1, 5),
    some.booleans(),
    some.booleans(),
    some.integers(0, 4),
    some.integers(0, 10**6),
)
def test_every_batch_comes_once_and_all_ranks_get_as_many(lengths, size, is_map, is_equal, losses, seed):
    servers = len(lengths)
    lengths = lengths[:1] if is_map else lengths
    shares = [Share(0, 0, rank, size, servers, is_map, is_equal) for rank in range(size)]
    got = read(shares, lengths, random.Random(seed), losses)
    every = [key for rank in got for key in rank]
    assert len(every) == len(set(every)), "nothing comes twice"
    left = sum(lengths) - len(every)
    if is_equal:
        assert len({len(rank) for rank in got}) == 1
        assert left == sum(lengths) % size
    else:
        assert left == 0
    assert {share.left for share in shares} == {left}


@settings(max_examples=60)
@given(some.integers(1, 3), some.integers(0, 9), some.integers(0, 10**6))
def test_what_was_taken_before_is_not_asked_for_again_and_the_ends_stay_equal(size, steps, seed):
    lengths, draw = [7, 4, 9], random.Random(seed)
    shares = [Share(0, 0, rank, size, 3, False) for rank in range(size)]
    first = [rank[:steps] for rank in read(shares, lengths, draw)]
    again = [Share(0, 0, rank, size, 3, False, True, set(first[rank])) for rank in range(size)]
    rest = read(again, lengths, draw)
    every = [key for rank in (*first, *rest) for key in rank]
    assert len(every) == len(set(every)) == sum(lengths) - sum(lengths) % size
    assert len({len(one) + len(two) for one, two in zip(first, rest, strict=True)}) == 1


def test_what_a_lost_server_had_is_asked_of_another_one():
    share = Share(0, 0, 0, 1, 2, False)
    asked = share.wishes(0, 2)
    assert [(wish.shard.index, wish.number, wish.first) for wish in asked] == [(0, 0, 0), (0, 1, 0)]
    share.lost(0)
    assert share.wishes(1, 3) == [*asked, Wish(Shard(0, 2, 0, 0), 2, 0)]
    assert share.wishes(0, 1) == [], "it has nothing any more"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_was_taken_is_short_text(size):
    rank = size - 1
    taken = {(0, rank + size * at) for at in range(1000)} | {(2, rank + size * 5), (2, rank + size * 9)}
    kept = Taken(rank, size, taken)
    assert all(key in kept for key in taken) and set(kept) == taken and not Taken(rank, size)
    assert not any(key in kept for key in ((0, rank + size * 1000), (2, rank), (1, rank), (2, rank + size * 6)))
    rows = kept.rows()
    assert rows == [[0, 1000], [2, 0, rank + size * 5, rank + size * 9]]
    assert set(expanded(rows, rank, size)) == taken
