from __future__ import annotations

import itertools
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline, without_autotune
from tfhet.planes import distribute
from tfhet.planes.tf_service.transport import Transport
from tfhet.source import SyntheticSource
from tfhet.strategies import JobContext

MODULE = "tfhet.planes.distribution"


@pytest.fixture(autouse=True)
def _log_is_captured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tfhet")


@pytest.fixture(autouse=True)
def _workers_stop_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker in this process waits up to 20 s for the autotuner of an endless data set (TF 2.15.1)."""
    publish = Transport.publish
    monkeypatch.setattr(
        Transport,
        "publish",
        lambda self, wire, dispatcher, data, name: publish(self, wire, dispatcher, without_autotune(data), name),
    )


@pytest.fixture
def each_rank(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tf.data.Dataset]]:
    """Calls distribute as each rank of a job would in its own process."""

    def call(jobs: list[JobContext], make: Callable[[], object], **how: object) -> list[tf.data.Dataset]:
        shares = []
        for job in jobs:
            monkeypatch.setattr(f"{MODULE}._ordinals", itertools.count())
            shares.append(distribute(make(), job=job, **how))  # type: ignore[arg-type]
        return shares

    return call


@pytest.fixture
def sharding(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sharding that was used, read by read."""
    used: list[str] = []
    read = Transport.read

    def spy(self: Transport, *arguments: object) -> tf.data.Dataset:
        used.append(str(arguments[-1]))
        return read(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Transport, "read", spy)
    return used


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Six files of 4, 5, 6, 7, 8, 9 numbers: 39 in all."""
    paths = [str(tmp_path / f"{index}.tfrecord") for index in range(6)]
    number = itertools.count()
    for index, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(4 + index):
                writer.write(str(next(number)).encode())
    return paths


def homogeneous(size: int) -> list[JobContext]:
    return [
        JobContext("job", "homogeneous", rank=rank, size=size, local_rank=rank, local_size=size) for rank in range(size)
    ]


@pytest.fixture(params=["served", "homogeneous"])
def ranks_of(request: pytest.FixtureRequest, served) -> Callable[[int], list[JobContext]]:
    """`ranks_of(2)`: the ranks of a job with a data service, and of one without."""
    return served.ranks if request.param == "served" else homogeneous


def tensors(count: int = 42, batch: int = 3) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).batch(batch)


def from_files(files: list[str], batch: int = 3) -> tf.data.Dataset:
    records = tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, cycle_length=2)
    return records.map(lambda text: tf.strings.to_number(text, tf.int64)).batch(batch)


def values(data: tf.data.Dataset, batches: int | None = None) -> list[int]:
    batches_read = data if batches is None else data.take(batches)
    return [int(value) for batch in batches_read.as_numpy_iterator() for value in batch]


def passes(shares: list[tf.data.Dataset], count: int) -> list[list[int]]:
    """The values that all ranks together got in each pass; they read in turn."""
    return [[value for share in shares for value in values(share)] for _ in range(count)]


def spread(counts: Counter) -> int:
    return max(counts.values()) - min(counts.values())


# One process


def test_local_data_set_is_unchanged():
    data = tensors()
    assert distribute(data) is data
    assert distribute(data, job=JobContext("job", "local")) is data


def test_steps_per_epoch_lose_nothing():
    data = distribute(tensors(), steps_per_epoch=4, job=JobContext("job", "local"))
    assert int(data.cardinality()) == 4
    assert [values(data) for _ in range(4)] == [
        list(range(12)),
        list(range(12, 24)),
        list(range(24, 36)),
        [*range(36, 42), *range(6)],
    ]


def test_pipeline_yields_images_and_labels():
    pipeline = Pipeline(SyntheticSource(20, 4, shape=(4, 4, 1)), "rescale()", batch_size=5)
    data = distribute(pipeline, job=JobContext("job", "local"))
    assert int(data.cardinality()) == 4
    assert data.element_spec == (tf.TensorSpec([None, 4, 4, 1], tf.float32), tf.TensorSpec([None], tf.int64))
    for _ in range(2):
        seen = [image.tobytes() for images, _ in data.as_numpy_iterator() for image in images]
        assert len(seen) == 20 == len(set(seen))


# Several ranks, no data service


def test_homogeneous_ranks_share_batches(each_rank):
    # 14 batches for 3 ranks: 4 steps each, and 2 batches over, which come first in the next pass.
    shares = each_rank(homogeneous(3), tensors)
    assert [int(share.cardinality()) for share in shares] == [4, 4, 4]
    first, second = passes(shares, 2)
    assert len(set(first)) == len(second) == 36
    assert set(first + second) == set(range(42))


def test_homogeneous_ranks_share_whole_files(each_rank, files):
    shares = each_rank(homogeneous(3), lambda: from_files(files), steps_per_epoch=5)
    seen = [set(values(share)) for share in shares]
    ends = [0, 4, 9, 15, 22, 30, 39]
    for one in (set(range(begin, end)) for begin, end in itertools.pairwise(ends)):
        assert sum(bool(one & mine) for mine in seen) == 1
    several = [{v for _ in range(4) for v in values(share)} for share in shares]
    assert set.union(*several) == set(range(39))
    assert sum(map(len, several)) == 39


def test_shuffled_list_of_files_is_shared(each_rank, files):
    def make() -> tf.data.Dataset:
        listed = tf.data.Dataset.list_files(files, shuffle=True)
        return listed.interleave(tf.data.TFRecordDataset).map(lambda t: tf.strings.to_number(t, tf.int64)).batch(3)

    shares = each_rank(homogeneous(2), make, steps_per_epoch=13)
    seen = [set(values(share)) for share in shares]
    assert not seen[0] & seen[1]
    assert seen[0] | seen[1] == set(range(39))


def test_homogeneous_ranks_may_disagree_about_the_order(each_rank):
    orders = iter([np.arange(42), np.arange(42)[::-1]])
    shares = each_rank(homogeneous(2), lambda: tf.data.Dataset.from_tensor_slices(next(orders)).batch(3))
    assert sorted(passes(shares, 1)[0]) == list(range(42))


@pytest.mark.parametrize("seed", [None, 1])
def test_homogeneous_ranks_share_shuffled_examples(each_rank, seed):
    shares = each_rank(homogeneous(2), lambda: tf.data.Dataset.range(42).shuffle(42, seed=seed).batch(3))
    for one in passes(shares, 2):
        assert sorted(one) == list(range(42))


def test_unseeded_python_source_is_refused(each_rank):
    with pytest.raises(UsageError, match="seed"):
        each_rank(homogeneous(2), lambda: from_generator().unbatch().shuffle(9).batch(3))


def test_files_with_asserted_cardinality_are_shared(each_rank, files):
    def inside() -> tf.data.Dataset:
        return from_files(files).apply(known(13)).prefetch(1)

    for make in (inside, lambda: from_files(files).apply(known(13))):
        shares = each_rank(homogeneous(2), make)
        assert [int(share.cardinality()) for share in shares] == [6, 6]
        counts = Counter(value for one in passes(shares, 3) for value in one)
        assert set(counts) == set(range(39))


# Served


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("workers", [1, 3])
def test_served_ranks_take_equal_steps(serve, each_rank, sharding, files, ranks, workers):
    for make, examples, batches in ((tensors, 42, 14), (lambda: from_files(files).apply(known(13)), 39, 13)):
        shares = each_rank(serve(workers).ranks(ranks), make)
        assert [int(share.cardinality()) for share in shares] == [batches // ranks] * ranks
        counts = Counter(value for one in passes(shares, 5) for value in one)
        assert set(counts) == set(range(examples))
        if workers == 1:  # every example comes once before any comes again; what ranks hold ready comes late
            assert spread(counts) <= 2
    assert set(sharding) == {"dynamic"}


def known(batches: int) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    return tf.data.experimental.assert_cardinality(batches)


def test_served_unknown_length_is_read_whole(served, each_rank, files):
    (data,) = each_rank([served.job()], lambda: from_files(files))
    for _ in range(2):
        assert sorted(values(data)) == list(range(39))


def test_served_pipeline_has_equal_steps(served, each_rank):
    pipeline = Pipeline(SyntheticSource(60, 12, shape=(4, 4, 1)), "random_flip(); rescale()", batch_size=5)
    shares = each_rank(served.ranks(2), lambda: pipeline)
    assert [int(share.cardinality()) for share in shares] == [6, 6]
    counts: Counter = Counter()
    for _ in range(4):
        for share in shares:
            for images, labels in share.as_numpy_iterator():
                assert images.shape[1:] == (4, 4, 1) and images.dtype == np.float32 and labels.dtype == np.int64
                counts["examples"] += len(images)
    assert counts["examples"] == 4 * 2 * 6 * 5


def test_endless_data_stay_endless(ranks_of, each_rank):
    shares = each_rank(ranks_of(2), lambda: tensors().repeat())
    for share in shares:
        assert int(share.cardinality()) in (tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY)
        assert len(values(share, 40)) > 42
    bounded = each_rank(ranks_of(2), lambda: tensors().repeat(), steps_per_epoch=3)
    assert [int(share.cardinality()) for share in bounded] == [3, 3]


def test_unknown_length_repeats_for_several_ranks(ranks_of, each_rank, caplog):
    shares = each_rank(ranks_of(2), lambda: tensors().filter(lambda batch: batch[0] >= 6))
    for share in shares:
        assert set(values(share, 40)) <= set(range(6, 42))
        assert len(values(share, 40)) > 42
    assert caplog.text.count("steps_per_epoch") == 2 * 2


@pytest.mark.parametrize("kind", ["files", "elements", "pipeline"])
def test_validation_pass_delivers_every_example_once(ranks_of, each_rank, files, kind):
    make: Callable[[], object] = {
        "files": lambda: from_files(files),
        "elements": lambda: tensors(39),
        "pipeline": lambda: Pipeline(SyntheticSource(39, 6, shape=(2, 2, 1)), batch_size=5, repeat=1),
    }[kind]
    shares = each_rank(ranks_of(2), make, training=False)
    for _ in range(2):
        if kind == "pipeline":
            assert sum(len(images) for share in shares for images, _ in share.as_numpy_iterator()) == 39
        else:
            assert sorted(passes(shares, 1)[0]) == list(range(39))


def test_zipped_data_are_sharded(serve, each_rank, sharding):
    (data,) = each_rank([serve(3).job()], lambda: tf.data.Dataset.zip((tensors(), tensors())), training=False)
    pairs = list(data.as_numpy_iterator())
    assert sharding == ["dynamic"]
    assert all((left == right).all() for left, right in pairs)
    assert sorted(int(value) for left, _ in pairs for value in left) == list(range(42))


def test_each_pass_has_each_example_once(serve, each_rank):
    numbers = tf.data.Dataset.range(48)
    (data,) = each_rank([serve(3).job()], lambda: tf.data.Dataset.zip((numbers, numbers)).shuffle(48).batch(5))
    for _ in range(3):
        assert sorted(int(value) for left, _ in data.as_numpy_iterator() for value in left) == list(range(48))


def test_parts_of_an_order_drawn_once_are_disjoint(serve, each_rank):
    mixed = tf.data.Dataset.range(48).shuffle(48, reshuffle_each_iteration=False)
    (train,) = each_rank([serve(3).job()], lambda: mixed.skip(12).batch(5))
    (validation,) = each_rank([serve(3).job()], lambda: mixed.take(12).batch(5), training=False)
    assert sorted(values(train) + values(validation) + values(train)) == sorted(
        [*values(mixed.take(12).batch(5)), *2 * values(mixed.skip(12).batch(5))]
    )


def test_seeded_shuffle_without_sharding_is_warned_of(served, each_rank, sharding, caplog):
    each_rank([served.job()], lambda: tf.data.Dataset.range(9).shuffle(9, seed=1), sharding="off")
    assert sharding == ["off"]
    assert "fixed seed" in caplog.text


def test_idle_workers_are_warned_of(served, each_rank, caplog):
    each_rank([served.job()], lambda: tf.data.Dataset.range(2).flat_map(tf.data.Dataset.range))
    assert "2 source elements for 3 workers" in caplog.text


def test_two_data_sets_do_not_mix(served, monkeypatch):
    monkeypatch.setattr(f"{MODULE}._ordinals", itertools.count())
    job = served.job()
    train, validation = (distribute(tf.data.Dataset.range(start, start + 9).batch(3), job=job) for start in (0, 100))
    assert set(values(train)) <= set(range(9))
    assert set(values(validation)) <= set(range(100, 109))


# Refused


def python_function() -> tf.data.Dataset:
    return tensors().map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64))


def from_generator() -> tf.data.Dataset:
    def numbers() -> Iterator[int]:
        yield from range(9)

    return tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64)).batch(3)


@pytest.mark.parametrize(("make", "name"), [(python_function, "tf.numpy_function"), (from_generator, "from_generator")])
def test_python_code_is_refused(served, make, name):
    with pytest.raises(UsageError, match=rf"{name}.*--data_plane feed"):
        distribute(make(), job=served.job())


def of_shard(shard, count):
    return tf.data.Dataset.range(count).shard(shard.count, shard.index).batch(3)


def test_function_is_called_locally(served, each_rank):
    (data,) = each_rank([served.job()], lambda: of_shard, arguments={"count": 39}, training=False)
    assert sorted(values(data)) == list(range(39))


def nested() -> tf.data.Dataset:
    return tf.data.Dataset.range(4).map(lambda x: {"episode": x, "steps": tf.data.Dataset.range(3)})


@pytest.mark.parametrize("make", [nested, lambda: tf.data.Dataset.range(64).window(4)])
@pytest.mark.parametrize("training", [True, False])
def test_data_sets_as_elements_are_refused(served, make, training):
    with pytest.raises(UsageError, match="flat_map"):
        distribute(make(), training=training, job=served.job())


def endless() -> Pipeline:
    return Pipeline(SyntheticSource(9, 3), batch_size=3, repeat=0)


@pytest.mark.parametrize(
    ("make", "options", "named"),
    [
        (lambda: tensors().repeat(), {"training": False}, "repeat()"),
        (endless, {"training": False}, "repeat=0"),
        (tensors, {"training": False, "steps_per_epoch": 3}, "steps_per_epoch"),
        (lambda: [1, 2], {}, "not list"),
        (tensors, {"sharding": "file"}, "'file'"),
        (tensors, {"steps_per_epoch": 0}, "steps_per_epoch"),
        (tensors, {"steps_per_epoch": -1}, "steps_per_epoch"),
        (tensors, {"arguments": {"count": 39}}, "arguments"),
        (lambda: repr, {}, "returned str"),
    ],
)
def test_wrong_use_is_refused(served, make, options, named):
    with pytest.raises(UsageError, match=re.escape(named)):
        distribute(make(), job=served.job(), **options)


def test_fewer_batches_than_ranks_are_refused(ranks_of):
    job = ranks_of(3)[0]
    for data in (tensors(6), Pipeline(SyntheticSource(8, 4), batch_size=4)):
        with pytest.raises(UsageError, match="2 batches"):
            distribute(data, job=job)
