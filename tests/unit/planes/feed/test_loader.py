"""`tfhet.batches` reads the same batches with a feed, without one, and alone."""

from __future__ import annotations

import gc
import itertools
import json
import os
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from event_loop import in_event_loop, until
from forked import exit_code_of_fork
from own_key import KEY

import tfhet
from tfhet.errors import DataError, UsageError
from tfhet.planes.feed import plane as feed_plane
from tfhet.strategies import JobContext


class Fifty:
    def __len__(self):
        return 50

    def __getitem__(self, index):
        return np.full((2, 2), index, np.float32), index


def fifty(shard):
    return Fifty()


class Sized(Fifty):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


def sized(shard, length=50):
    return Sized(length)


def eighty(shard, length=50):
    return Sized(80)


def numbers(shard, until=12):
    for number in range(shard.index, until, shard.count):
        yield np.array([number])


ALONE = JobContext("alone", "local")


@pytest.fixture
def served(serve, monkeypatch):
    """`served(rank, size)`: a job whose feed has two servers."""
    servers = [one.address for one in serve(2)]
    monkeypatch.setattr("tfhet.planes.process.key_from", lambda env: KEY)

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
    for loader in loaders:
        loader.close()


def rows(shard, batches, rows):
    for number in range(shard.index, batches, shard.count):
        first = np.arange(number * rows, (number + 1) * rows)
        yield {"n": first, "names": [str(one) for one in first]}


def of_other_lengths(shard):
    for _ in range(shard.index, 5, shard.count):
        yield np.zeros(4), np.zeros(3)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 8},
        {"batch_size": 8, "shuffle": True, "drop_last": True},
        {"batch_size": 40},
        {"arguments": {"batches": 5, "rows": 3}},
        {"arguments": {"batches": 4, "rows": 2}},
    ],
)
def test_validation_is_whole_and_equal_for_ranks(served, options, ranks):
    make = fifty if "batch_size" in options else rows
    loaders = [tfhet.batches(make, training=False, job=served(rank, ranks), **options) for rank in range(ranks)]
    for _ in range(2):
        found = [list(loader) for loader in loaders]
        assert len({len(batches) for batches in found}) == 1
        numbers = [batch["n"] if make is rows else batch[1] for batches in found for batch in batches]
        whole = (
            48 if options.get("drop_last") else 50 if make is fifty else np.prod(list(options["arguments"].values()))
        )
        assert len(np.concatenate(numbers)) == len(np.unique(np.concatenate(numbers))) == whole
        if make is rows:
            assert all(batch["names"] == [str(one) for one in batch["n"]] for each in found for batch in each)
        else:
            assert {len(loader) for loader in loaders} == {len(found[0])}
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize(
    ("make", "options", "ranks", "error"),
    [
        (fifty, {"batch_size": 1}, 3, UsageError),
        (rows, {"arguments": {"batches": 1, "rows": 5}}, 2, DataError),
        (rows, {"arguments": {"batches": 3, "rows": 1}}, 2, DataError),
        (of_other_lengths, {}, 2, DataError),
    ],
)
def test_validation_that_cannot_be_equal_fails(served, make, options, ranks, error):
    loader = tfhet.batches(make, training=False, job=served(ranks - 1, ranks), **options)
    with pytest.raises(error, match="map-style|larger batches"):
        list(loader)
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
    for wrong in ({}, {**state, "examples": "x"}, {**state, "dataset": 7}, []):
        with pytest.raises(UsageError, match="no state of a loader"):
            again.load_state_dict(wrong)
    again.set_epoch(0)
    assert again.state_dict()["epoch"] == 0
    again.close()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"shuffle": False}, "shuffle"),
        ({"training": False}, "training"),
        ({"arguments": {"length": 51}}, "arguments: length"),
        ({"data": eighty}, "source"),
        ({"seed": 5}, "seed 0 instead of 5"),
    ],
)
def test_state_of_another_loader_is_refused(served, changed, named):
    options = {"data": sized, "batch_size": 8, "shuffle": True, "arguments": {"length": 50}}
    first = tfhet.batches(**options, job=served())
    next(iter(first))
    state = first.state_dict()
    job = replace(served(), seed=changed.pop("seed", 0))
    other = tfhet.batches(**{**options, **changed}, job=job)
    with pytest.raises(UsageError, match=f"^the state is of .*{named}"):
        other.load_state_dict(state)
    for loader in (first, other):
        loader.close()


def test_state_between_epochs_is_of_any_rank(served):
    first = tfhet.batches(fifty, batch_size=8, job=served())
    assert len(list(first)) == 7
    second = tfhet.batches(fifty, batch_size=8, job=served(1, 2))
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    for loader in (first, second):
        loader.close()


def test_state_continues_on_other_numbers_of_ranks_and_processes(served):
    first = [tfhet.batches(fifty, batch_size=4, shuffle=True, job=served(rank, 3)) for rank in range(3)]
    seen, states = [], []
    for loader in first:
        seen += [int(one) for _, labels in itertools.islice(loader, 2) for one in labels]
        states.append(loader.state_dict())
        loader.close()
    assert states[0] == states[1] == states[2] and states[0]["examples"] == 24
    order = list(tfhet.batches(fifty, batch_size=50, shuffle=True, job=ALONE))[0][1].tolist()
    assert sorted(seen) == sorted(order[:24])
    again = tfhet.batches(fifty, batch_size=12, shuffle=True, job=ALONE)
    again.load_state_dict(json.loads(json.dumps(states[2])))
    steps = [labels.tolist() for _, labels in again]
    assert steps == [order[24:36], order[36:48], order[48:]]


def test_ranks_with_states_of_different_steps_are_refused(served, monkeypatch):
    monkeypatch.setattr("tfhet.planes.feed.loader._ordinals", itertools.repeat(0))
    state = tfhet.batches(fifty, batch_size=4, job=ALONE).state_dict()
    loaders = [tfhet.batches(fifty, batch_size=4, job=served(rank, 2)) for rank in range(2)]
    for loader, examples in zip(loaders, (8, 16), strict=True):
        loader.load_state_dict({**state, "examples": examples})
    next(iter(loaders[0]))
    with pytest.raises(DataError, match="rank 1 continues epoch 0 .* after 16 examples, and rank 0 after 8"):
        next(iter(loaders[1]))
    for loader in loaders:
        loader.close()


def test_batches_of_a_dataset_come_in_their_order(served):
    order = np.concatenate([labels for _, labels in tfhet.batches(fifty, batch_size=4, shuffle=True, job=ALONE)])
    loader = tfhet.batches(fifty, batch_size=4, shuffle=True, job=served())
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in loader]), order)
    loader.close()


def test_state_of_other_data_is_refused(served):
    loader = tfhet.batches(sized, batch_size=8, arguments={"length": 50}, job=served())
    assert len(loader) == 7
    state = loader.state_dict()
    for changed, named in (({"examples": 49}, "examples 49 instead of 50"), ({"order": "other"}, "order")):
        with pytest.raises(UsageError, match=named):
            loader.load_state_dict({**state, "dataset": {**state["dataset"], **changed}})
    loader.load_state_dict(state)
    loader.close()


def test_iterable_resumes_on_as_many_processes(served):
    loader = tfhet.batches(numbers, job=served())
    found = [int(batch[0]) for batch in itertools.islice(loader, 5)]
    state = loader.state_dict()
    loader.close()
    order = {name: served().order[name][:1] for name in ("servers", "hosts")}
    fewer = tfhet.batches(numbers, job=replace(served(), order={**served().order, **order}))
    with pytest.raises(UsageError, match="processes 2 instead of 1"):
        fewer.load_state_dict(state)
    again = tfhet.batches(numbers, job=served())
    again.load_state_dict(state)
    assert sorted([*found, *(int(batch[0]) for batch in again)]) == list(range(12))
    for loader in (fewer, again):
        loader.close()


@pytest.mark.parametrize("options", [{"data": fifty, "batch_size": 8, "shuffle": True}, {"data": numbers}])
def test_state_at_the_last_batch_begins_the_next_epoch(served, options):
    for job in (ALONE, served()):
        loader = tfhet.batches(**options, job=job)
        for _ in loader:
            state = loader.state_dict()
        loader.close()
        again = tfhet.batches(**options, job=job)
        again.load_state_dict(json.loads(json.dumps(state)))
        assert [len(list(again)) for _ in range(2)] == [7 if "batch_size" in options else 12] * 2
        assert again.state_dict()["epoch"] == 3
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


def test_loader_has_attributes_of_a_dataloader():
    loader = tfhet.batches(fifty, batch_size=8, shuffle=True, job=ALONE)
    assert len(loader.dataset) == len(loader.sampler) == 50
    assert loader.batch_size == loader.batch_sampler.batch_size == 8
    assert (loader.num_workers, loader.drop_last, loader.pin_memory) == (0, False, False)
    assert len(loader.batch_sampler) == 7 and len(loader.batch_sampler.sampler) == 50
    assert not hasattr(loader.batch_sampler, "batch_sampler")  # scripts look for the innermost sampler
    assert loader.collate_fn([loader.dataset[0], loader.dataset[1]])[1].tolist() == [0, 1]
    for sampler in (loader.sampler, loader.batch_sampler):
        with pytest.raises(UsageError, match="load_state_dict"):
            next(iter(sampler))
    loader.sampler.set_epoch(3)
    assert loader.state_dict()["epoch"] == 3
    iterable = tfhet.batches(numbers, job=ALONE)
    assert iterable.batch_size is None and iterable.batch_sampler is None
    iterable.sampler.set_epoch(1)
    with pytest.raises(AttributeError, match="numbers"):
        iterable.dataset  # noqa: B018


@pytest.mark.parametrize("epoch", [-1, 2.5, "1", None])
def test_epoch_is_a_whole_number(epoch):
    with pytest.raises(UsageError, match=re.escape(repr(epoch))):
        tfhet.batches(numbers, job=ALONE).set_epoch(epoch)


def test_long_arguments_are_refused():
    with pytest.raises(UsageError, match="numbers.* bytes"):
        tfhet.batches(numbers, arguments={"files": [f"/data/{number:06}.jpg" for number in range(60_000)]}, job=ALONE)


def test_forked_process_may_read_an_unread_loader(served):
    loader = tfhet.batches(fifty, batch_size=8, job=served())
    assert len(loader) == 7
    assert exit_code_of_fork(lambda: len(list(loader))) == 7
    assert len(list(loader)) == 7


@in_event_loop  # whose own descriptors are open before the first loader is
async def test_forgotten_loaders_are_closed(served):
    job = served()

    def use() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    before = use()
    for _ in range(60):
        assert len(list(tfhet.batches(numbers, training=False, job=job))) == 12
        assert len(next(iter(tfhet.batches(fifty, batch_size=8, job=job)))) == 2
    await until(lambda: all(now <= was for now, was in zip(use(), before, strict=True)))


@in_event_loop
async def test_forgotten_data_sets_close_their_loaders(served):
    job = served()
    spec = tf.TensorSpec([1], tf.int64)
    side = feed_plane.FEED.rank_side()

    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def evaluate() -> None:
        data = side.called(numbers, {}, spec, job, False)
        assert len(list(data)) == 12

    evaluate()
    before = open_files()
    for _ in range(5):
        evaluate()
    await until(lambda: open_files() <= before)


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
    for training in (True, False):
        with pytest.raises(UsageError, match="--data_plane feed"):
            next(iter(tfhet.batches(numbers, training=training, job=two[0])))
    held_out = [list(tfhet.batches(fifty, batch_size=8, training=False, job=job)) for job in two]
    assert [len(batches) for batches in held_out] == [4, 4]
    assert sorted(int(one) for batches in held_out for _, labels in batches for one in labels) == list(range(50))
