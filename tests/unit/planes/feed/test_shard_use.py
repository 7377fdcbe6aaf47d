"""Iterables that ignore their shard are served once, and those that shuffle what they divide lose nothing."""

from __future__ import annotations

import dataclasses
import pickle
import random

import pytest
from forked import exit_code_of_fork

from tfhet.errors import UsageError
from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.production import EndOfShard, Production
from tfhet.planes.feed.source import FeedSource, Shard


def everything(shard):
    print(shard, shard.epoch, shard.seed)
    yield from range(8)


def sliced(shard):
    yield from range(8)[shard.index :: shard.count]


def counted(shard):
    for _ in range(8 // shard.count):
        yield random.random()


def late(shard):
    for number in range(8):
        if number > 1 and number % shard.count != shard.index:
            continue
        yield number


def filtered(shard):
    for number in range(8):
        if number % shard.count == shard.index:
            yield number


def passed_on(shard):
    """As a DataLoader with spawned workers does."""
    return sliced(pickle.loads(pickle.dumps(shard)))


def copied_fields(shard):
    return sliced(Shard(**dataclasses.asdict(shard)))


def forked(shard):
    """As a DataLoader with forked workers does."""
    yield exit_code_of_fork(lambda: list(sliced(shard))[-1])


def shuffled(shard):
    files = list(range(8))
    random.shuffle(files)
    for file in files[shard.index :: shard.count]:
        yield file, random.random()


def shuffled_by_class(shard):
    return Shuffled(shard)


class Shuffled:
    def __init__(self, shard):
        self.shard = shard

    def __iter__(self):
        return shuffled(self.shard)


def read(make, index=0, count=2, epoch=0) -> list:
    production = Production(FeedSource.of(make, {}), 3)
    found = []
    while not isinstance(made := production.batch(BatchRequest(Shard(index, count, epoch), len(found), 0)), EndOfShard):
        found.append(made.value)
    return found


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("make", [everything, sliced, filtered, passed_on, copied_fields])
def test_every_example_arrives_once(make, count):
    assert sorted(one for index in range(count) for one in read(make, index, count)) == list(range(8))


def ignoring(shard):
    return range(8)


def test_ignored_shard_is_reported_once(capsys):
    for _ in range(2):
        assert read(ignoring) == list(range(8)) and read(ignoring, 1) == []
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "shard.index" in line]
    assert "ignoring" in line and "2 processes" in line
    assert read(ignoring, count=1) == list(range(8))
    assert "shard.index" not in capsys.readouterr().out


def test_shard_may_be_read_by_a_worker():
    assert [read(forked, index) for index in range(2)] == [[6], [7]]


def test_simulators_need_no_index():
    one, other = read(counted), read(counted, 1)
    assert len(one) == len(other) == 4


def test_shard_that_is_read_late_is_refused():
    with pytest.raises(UsageError, match="late reads shard.index"):
        read(late)


def test_function_that_has_read_its_shard_may_remember_it():
    production = Production(FeedSource.of(remembering, {}), 3)
    for epoch in range(2):
        assert production.batch(BatchRequest(Shard(1, 2, epoch), 0, 0)).value == 1


remembered: list[int] = []


def remembering(shard):
    if not remembered:
        remembered.extend(range(8)[shard.index :: shard.count])
    yield from remembered


@pytest.mark.parametrize("make", [shuffled, shuffled_by_class])
def test_shards_of_shuffled_files_are_disjoint(make):
    shards = [read(make, index) for index in range(2)]
    assert sorted(file for shard in shards for file, _ in shard) == list(range(8))
    assert len({drawn for shard in shards for _, drawn in shard}) == 8
    assert shards[0] == read(make) != read(make, epoch=1)
