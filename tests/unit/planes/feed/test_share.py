"""Shares of ranks are equal whatever the shards' lengths and whichever servers are lost; credit of servers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as some

from tfhet.errors import UsageError
from tfhet.planes.feed.batch_reader import Position
from tfhet.planes.feed.credit import FOR_S, LEAST, MOST, MOST_BYTES, Credit
from tfhet.planes.feed.delivered import BatchRequest, DeliveredSet, Received
from tfhet.planes.feed.production import EndOfShard
from tfhet.planes.feed.share import EpochPass, Share
from tfhet.planes.feed.source import Shard


def answer(lengths: list[int], request: BatchRequest) -> EndOfShard | None:
    length = lengths[request.shard.index]
    return EndOfShard(length) if request.round_end > length else None


def read(shares: list[Share], lengths: list[int], draw: random.Random, losses: int = 0) -> list[list[tuple[int, int]]]:
    """The batches that each rank receives if answers arrive in any order, and servers leave and return."""
    got: list[list[tuple[int, int]]] = [[] for _ in shares]
    waiting: list[tuple[int, int, BatchRequest]] = []
    servers, gone = shares[0].servers, set[int]()
    for _ in range(10_000):
        for rank, share in enumerate(shares):
            for server in set(range(servers)) - gone:
                free = 3 - sum(one[:2] == (rank, server) for one in waiting)
                waiting += [(rank, server, request) for request in share.requests(server, draw.randint(0, free))]
        if losses and draw.random() < 0.1 and (left := sorted(set(range(servers)) - gone)):
            losses -= 1
            lost = draw.choice(left)
            gone.add(lost)
            waiting = [one for one in waiting if one[1] != lost]
            for share in shares:
                share.remove_server(lost)
        if gone and (draw.random() < 0.3 or len(gone) == servers):
            back = gone.pop()
            for share in shares:
                share.add_server(back)
        if not waiting:
            if all(share.is_whole for share in shares):
                return got
            continue
        rank, _, request = waiting.pop(draw.randrange(len(waiting)))
        key, over = (request.shard.index, request.number, request.is_rest), answer(lengths, request)
        if over is not None:
            shares[rank].end_shard(key, over.batches)
        elif shares[rank].accept(key):
            shares[rank].delivered.add(key[:2])
            got[rank].append(key[:2])
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
def test_every_batch_arrives_once_and_shares_are_equal(lengths, size, is_map, is_equal, losses, seed):
    servers = len(lengths)
    lengths = lengths[:1] if is_map else lengths
    shares = [Share(0, 0, rank, size, servers, is_map, is_equal) for rank in range(size)]
    got = read(shares, lengths, random.Random(seed), losses)
    every = [key for rank in got for key in rank]
    assert len(every) == len(set(every))
    left = sum(lengths) - len(every)
    if is_equal:
        assert len({len(rank) for rank in got}) == 1
        assert left == sum(lengths) % size
    else:
        assert left == 0
        longest = max(len(rank) for rank in got)
        assert [longest - len(rank) for rank in got] == [share.is_short for share in shares]
    assert {share.left for share in shares} == {left}


@settings(max_examples=60)
@given(some.integers(1, 3), some.integers(0, 9), some.integers(0, 10**6))
def test_resumed_shares_skip_delivered_batches(size, steps, seed):
    lengths, draw = [7, 4, 9], random.Random(seed)
    shares = [Share(0, 0, rank, size, 3, False) for rank in range(size)]
    first = [rank[:steps] for rank in read(shares, lengths, draw)]
    again = [Share(0, 0, rank, size, 3, False, True, Position(0, frozenset(first[rank]))) for rank in range(size)]
    rest = read(again, lengths, draw)
    every = [key for rank in (*first, *rest) for key in rank]
    assert len(every) == len(set(every)) == sum(lengths) - sum(lengths) % size
    assert len({len(one) + len(two) for one, two in zip(first, rest, strict=True)}) == 1


def test_lost_server_batches_move_to_another():
    share = Share(0, 0, 0, 1, 2, False)
    asked = share.requests(0, 2)
    assert [(request.shard.index, request.number, request.first) for request in asked] == [(0, 0, 0), (0, 1, 0)]
    share.remove_server(0)
    assert share.requests(1, 3) == [*asked, BatchRequest(Shard(0, 2, 0, 0), 2, 0)]
    assert share.requests(0, 1) == []


def test_end_that_was_not_requested_is_ignored():
    """It answers an earlier iteration of this epoch: the rounds before it would never be requested."""
    share = Share(0, 0, 0, 1, 1, True)
    assert [request.number for request in share.requests(0, 2)] == [0, 1]
    assert not share.end_shard((0, 9, False), 9) and not share.end_shard((7, 0, False), 9)
    assert [request.number for request in share.requests(0, 2)] == [2, 3]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_delivered_set_stays_small(size):
    rank = size - 1
    taken = {(0, rank + size * at) for at in range(1000)} | {(2, rank + size * 5), (2, rank + size * 9)}
    kept = DeliveredSet(rank, size, taken)
    assert all(key in kept for key in taken) and kept.keys() == taken and not DeliveredSet(rank, size)
    assert not any(key in kept for key in ((0, rank + size * 1000), (2, rank), (1, rank), (2, rank + size * 6)))
    rows = kept.rows()
    assert rows == [[0, 1000], [2, 0, rank + size * 5, rank + size * 9]]
    assert DeliveredSet.parse(rows, rank, size) == taken


def most(size: int, between_s: float, servers: int = 1, fixed: int | None = None) -> int:
    credit = Credit(servers, fixed)
    for at in range(20):
        credit.on_batch(size, 100.0 + at * between_s)
    return credit.most


@pytest.mark.parametrize(
    ("size", "between_s", "servers", "expected"),
    [
        (1, FOR_S / 100, 1, MOST),
        (1, FOR_S / 4.5, 1, 4),
        (1, 10.0, 1, LEAST),
        (MOST_BYTES // 6, 1e-4, 1, 6),
        (MOST_BYTES // 12, 1e-4, 4, 3),
        (MOST_BYTES, 1e-4, 1, LEAST),
        (0, 0.0, 1, MOST),
    ],
)
def test_credit_is_limited_by_time_and_memory(size, between_s, servers, expected):
    assert most(size, between_s, servers) == expected


def test_credit_starts_low_and_fixed_credit_stays():
    assert Credit().most == LEAST
    assert most(1, 1e-4, fixed=1) == 1 and most(MOST_BYTES, 10.0, fixed=20) == 20
    with pytest.raises(UsageError):
        Credit(1, 0)


def test_slow_server_loses_credit():
    credit = Credit()
    for at in range(20):
        credit.on_batch(1, at * 1e-3)
    assert credit.most == MOST
    for at in range(20):
        credit.on_batch(1, 1.0 + at)
    assert credit.most == LEAST


@pytest.mark.parametrize(("fixed", "free"), [(1, [1, 0]), (2, [2, 1, 0]), (5, [5, 4, 3, 0, 0, 0])])
def test_half_of_the_credit_is_requested_together(fixed, free):
    assert [Credit(1, fixed).free(has) for has in range(fixed + 1)] == free


def test_early_batches_do_not_count_against_time():
    """The batches of a map-style dataset arrive in order: a fast server would wait for a slow one."""
    share, credit, slow = Share(0, 0, 0, 1, 2, True), Credit(2), Credit(2)
    this = EpochPass.of(share)
    assert [request.number for request in this.requests(1, slow)] == [0, 1]
    requested, made = this.requests(0, credit), 0
    while requested:
        number = requested.pop(0).number
        assert share.accept((0, number, False))
        made += 1
        credit.on_batch(1000, float(made))
        this.add(Received(None, None, None, (0, number), 0), float(made))
        requested += this.requests(0, credit)
    assert credit.most == LEAST and made == MOST and this.ready.empty()


def test_batches_of_a_dataset_wait_for_those_of_a_lost_server():
    share, credit = Share(0, 0, 0, 1, 2, True), Credit(2, fixed=2)
    this = EpochPass.of(share)
    asked = {server: [request.number for request in this.requests(server, credit)] for server in (0, 1)}
    assert asked == {0: [0, 1], 1: [2, 3]}

    def arrive(number: int) -> None:
        assert share.accept((0, number, False))
        this.add(Received(None, None, None, (0, number), 1), 0.0)

    for number in asked[1]:
        arrive(number)
    assert this.ready.empty()
    this.remove_server(0)
    # The living server has as many batches as it may have, and they wait for the lost server's batches.
    assert [request.number for request in this.requests(1, credit)] == [0, 1]
    arrive(1)
    assert this.ready.empty()
    arrive(0)
    found = [this.next(0) for _ in range(4)]
    assert [each.key[1] for each in found if each] == [0, 1, 2, 3]
