"""`tfhet.batches` reads the same batches with a feed, without one, and alone."""

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


def test_same_batches_alone_and_from_a_feed(served):
    every = []
    for job in (ALONE, served()):
        loader = tfhet.batches(fifty, batch_size=8, shuffle=True, job=job)
        assert len(loader) == 7
        epochs = [sorted(int(one) for _, labels in loader for one in labels) for _ in range(2)]
        assert epochs == [list(range(50))] * 2
        every.append({tuple(labels.tolist()) for _, labels in loader})
        loader.close()
    assert every[0] == every[1]


def test_ranks_share_batches_and_length(served):
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


def test_loader_continues_from_its_state(served):
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
    with pytest.raises(UsageError, match="rank 1 of 2"):
        tfhet.batches(fifty, batch_size=8, job=served(1, 2)).load_state_dict(state)
    with pytest.raises(UsageError, match="KeyError"):
        again.load_state_dict({})
    again.set_epoch(0)
    assert again.state_dict()["epoch"] == 0
    again.close()


def test_epoch_follows_an_interrupted_one(served):
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


def test_iterable_has_no_length(served):
    for job in (ALONE, served()):
        loader = tfhet.batches(numbers, arguments={"until": 13}, job=job)
        assert sorted(int(batch[0]) for batch in loader) == list(range(13))
        with pytest.raises(TypeError):
            len(loader)
        assert loader.counts == {"left": 0, "again": 0}
        loader.close()


def test_tensorflow_data_set_yields_arrays():
    ds = tf.data.Dataset.from_tensor_slices((np.arange(6, dtype=np.float32), ["a"] * 6, [True] * 6)).batch(3)
    found = list(tfhet.batches(ds, job=ALONE))
    assert [values.tolist() for values, _, _ in found] == [[0, 1, 2], [3, 4, 5]]
    assert all(isinstance(part, np.ndarray) for batch in found for part in batch)
    assert found[0][1].tolist() == [b"a"] * 3 and found[0][2].all()
    assert len(tfhet.batches(ds, job=ALONE)) == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"shuffle": True}, "set batch_size"),
        ({"batch_size": -1}, "not -1"),
        ({"make_limit_s": 0}, "make_limit_s"),
        ({"job": JobContext("j", "heterogeneous", plane="tf_service")}, "--data_plane feed"),
    ],
)
def test_wrong_options_are_refused(options, named):
    with pytest.raises(UsageError, match=named):
        tfhet.batches(numbers, **{"job": ALONE, **options})
    with pytest.raises(UsageError, match="tf.data.Dataset"):
        tfhet.batches(tf.data.Dataset.range(3), batch_size=2, job=ALONE)


def test_ranks_without_feed_share_only_map_style_datasets():
    two = [JobContext("two", "homogeneous", rank, 2, rank, 2) for rank in range(2)]
    found = [int(one) for job in two for _, labels in tfhet.batches(fifty, batch_size=8, job=job) for one in labels]
    assert len(found) == len(set(found)) == 48
    with pytest.raises(UsageError, match="--data_plane feed"):
        next(iter(tfhet.batches(numbers, job=two[0])))
    apart = [int(batch[0]) for job in two for batch in tfhet.batches(numbers, training=False, job=job)]
    assert sorted(apart) == list(range(12))
