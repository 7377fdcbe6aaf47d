"""`tfhet.batches`: the same in a job with a feed, in one without, and alone; and its notes for the run's record."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
from own_key import KEY

import tfhet
from tfhet.errors import UsageError
from tfhet.planes.feed import plane as feed_plane
from tfhet.strategies import JobContext


class Fifty:
    def __len__(self):
        return 50

    def __getitem__(self, index):
        return np.full((2, 2), index, np.float32), index


def fifty(shard):
    return Fifty()


def numbers(shard, until=12):
    for number in range(shard.index, until, shard.count):
        yield np.array([number])


ALONE = JobContext("alone", "local")


@pytest.fixture
def served(serve, monkeypatch):
    """`served(rank, size)`: a job whose feed has two servers."""
    servers = [one.address for one in serve(2)]
    monkeypatch.setattr(feed_plane, "key_from", lambda env: KEY)

    def job(rank: int = 0, size: int = 1) -> JobContext:
        order = {"servers": servers, "hosts": ["algo-1", "algo-2"], "encrypted": False}
        return JobContext("job", "heterogeneous", rank, size, rank, size, plane="feed", order=order)

    return job


def test_it_reads_alike_alone_and_from_a_feed(served):
    every = []
    for job in (ALONE, served()):
        loader = tfhet.batches(fifty, batch_size=8, shuffle=True, job=job)
        assert len(loader) == 7
        epochs = [sorted(int(one) for _, labels in loader for one in labels) for _ in range(2)]
        assert epochs == [list(range(50))] * 2
        every.append({tuple(labels.tolist()) for _, labels in loader})
        loader.close()
    assert every[0] == every[1]


def test_ranks_share_it_and_the_length_is_theirs(served):
    loaders = [tfhet.batches(fifty, batch_size=8, job=served(rank, 2)) for rank in range(2)]
    for loader, other in zip(loaders, loaders[1:], strict=False):  # they read the same source
        object.__setattr__(other, "source", loader.source)
    assert [len(loader) for loader in loaders] == [3, 3]
    found = [labels for loader in loaders for _, labels in itertools.islice(loader, 3)]
    assert len(np.unique(np.concatenate(found))) == 48
    part = tfhet.batches(fifty, batch_size=8, training=False, job=served(0, 2))
    assert len(part) == 4
    for loader in (*loaders, part):
        loader.close()


def test_it_goes_on_where_its_state_stood(served):
    first = tfhet.batches(fifty, batch_size=8, shuffle=True, job=served())
    begun = iter(first)
    seen = [int(one) for _, labels in itertools.islice(begun, 3) for one in labels]
    state = json.loads(json.dumps(first.state_dict()))
    first.close()
    again = tfhet.batches(fifty, batch_size=8, shuffle=True, job=served())
    again.load_state_dict(state)
    seen += [int(one) for _, labels in again for one in labels]
    assert sorted(seen) == list(range(50))
    assert len([0 for _ in again]) == 7 and again.state_dict()["epoch"] == 2
    with pytest.raises(UsageError, match="the state is of rank 0 of 1 .* this is rank 1 of 2"):
        tfhet.batches(fifty, batch_size=8, job=served(1, 2)).load_state_dict(state)
    with pytest.raises(UsageError, match="no state of a loader: KeyError"):
        again.load_state_dict({})
    again.set_epoch(0)
    assert again.state_dict()["epoch"] == 0
    again.close()


def test_an_iteration_that_is_left_early_is_followed_by_the_next_epoch(served):
    for job in (ALONE, served()):
        loader = tfhet.batches(fifty, batch_size=8, shuffle=True, job=job)
        order = dict.fromkeys(range(3))
        for epoch in order:
            for _, labels in loader:
                order[epoch] = tuple(labels.tolist())
                assert loader.state_dict()["epoch"] == epoch
                break
        assert len(set(order.values())) == 3
        assert sorted(int(one) for _, labels in loader for one in labels) == list(range(50))
        loader.close()


def test_an_iterable_is_read_to_its_end_and_has_no_length(served):
    for job in (ALONE, served()):
        loader = tfhet.batches(numbers, arguments={"until": 13}, job=job)
        assert sorted(int(batch[0]) for batch in loader) == list(range(13))
        with pytest.raises(TypeError, match="an iterable, whose length only its end shows"):
            len(loader)
        assert loader.counts == {"left": 0, "again": 0}
        loader.close()


def test_a_data_set_of_tensorflow_comes_as_arrays():
    ds = tf.data.Dataset.from_tensor_slices((np.arange(6, dtype=np.float32), ["a"] * 6, [True] * 6)).batch(3)
    found = list(tfhet.batches(ds, job=ALONE))
    assert [values.tolist() for values, _, _ in found] == [[0, 1, 2], [3, 4, 5]]
    assert all(isinstance(part, np.ndarray) for batch in found for part in batch)
    assert found[0][1].tolist() == [b"a"] * 3 and found[0][2].all()
    assert len(tfhet.batches(ds, job=ALONE)) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shuffle": True}, "shuffle, drop_last and collate are for map-style datasets"),
        ({"batch_size": -1}, "batch_size must be at least 1, not -1"),
        ({"job": JobContext("j", "heterogeneous", plane="tf_service")}, "start it with --data_plane feed"),
    ],
)
def test_options_that_do_not_fit_are_said(options, says):
    with pytest.raises(UsageError, match=says):
        tfhet.batches(numbers, **{"job": ALONE, **options})
    with pytest.raises(UsageError, match="are for a function; a tf.data.Dataset"):
        tfhet.batches(tf.data.Dataset.range(3), batch_size=2, job=ALONE)


def test_several_ranks_without_a_feed_share_a_dataset_and_not_an_iterable():
    two = [JobContext("two", "homogeneous", rank, 2, rank, 2) for rank in range(2)]
    found = [int(one) for job in two for _, labels in tfhet.batches(fifty, batch_size=8, job=job) for one in labels]
    assert len(found) == len(set(found)) == 48
    with pytest.raises(UsageError, match="2 ranks read .*numbers, an iterable, each its own shard"):
        next(iter(tfhet.batches(numbers, job=two[0])))
    apart = [int(batch[0]) for job in two for batch in tfhet.batches(numbers, training=False, job=job)]
    assert sorted(apart) == list(range(12))
