"""`distribute(..., training=False)`: each pass has every example once, and equally many batches for every rank."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import NotReady, UsageError
from tfhet.pipeline import Pipeline
from tfhet.planes import distribute
from tfhet.planes.validation import gather
from tfhet.source import SyntheticSource
from tfhet.strategies import JobContext

Data = tf.data.Dataset
COUNT = 26


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Five files of 3, 4, 5, 6, 8 numbers."""
    folder, numbers, paths = tmp_path_factory.mktemp("records"), itertools.count(), []
    for size in (3, 4, 5, 6, 8):
        paths.append(str(folder / f"{size}.tfrecord"))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for _ in range(size):
                writer.write(str(next(numbers)).encode())
    return paths


def records(files: list[str]) -> Data:
    read = Data.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, num_parallel_calls=2)
    return read.map(lambda text: tf.strings.to_number(text, tf.int64))


def slices(_: list[str]) -> Data:
    return Data.from_tensor_slices(np.arange(COUNT))


MAKES: dict[str, Callable[[list[str]], Any]] = {
    "slices": lambda files: slices(files).map(lambda x: x).batch(5).prefetch(1),
    "one example short": lambda files: slices(files).take(25).batch(5),
    "one example over": lambda files: slices(files).take(21).batch(10),
    "shuffled": lambda files: slices(files).shuffle(9).batch(5),
    "repeated batches": lambda files: slices(files).take(23).batch(5).repeat(2),
    "a large batch": lambda files: slices(files).batch(64),
    "map after batch": lambda files: slices(files).batch(5).map(lambda x: (x, tf.one_hot(x, 3))),
    "dicts": lambda files: slices(files).map(lambda x: {"x": x, "name": tf.strings.as_string(x)}).batch(5),
    "zip": lambda files: Data.zip((slices(files), Data.range(COUNT))).batch(5),
    "ragged": lambda files: slices(files).map(lambda x: tf.fill([x % 3 + 1], x)).ragged_batch(5),
    "padded": lambda files: slices(files).map(lambda x: tf.fill([x % 3 + 1], x)).padded_batch(5),
    "sparse": lambda files: slices(files).map(lambda x: tf.sparse.SparseTensor([[0]], [x], [3])).batch(5),
    "records": lambda files: records(files).batch(5),
    "shuffled records": lambda files: records(files).shuffle(9).batch(4),
    "filter": lambda files: slices(files).filter(lambda x: x % 3 > 0).batch(2),
    "filtered records": lambda files: records(files).filter(lambda x: x % 4 > 0).batch(3),
    "function": lambda files: of_shard,
    "pipeline": lambda files: Pipeline(SyntheticSource(COUNT, 3, shape=(2, 2, 1)), batch_size=5, repeat=1),
}


def of_shard(shard: Any) -> Data:
    return Data.range(COUNT).shard(shard.count, shard.index).batch(5)


def examples(batch: Any) -> list[float]:
    """A number for each example of a batch."""
    first = next(part for part in tf.nest.flatten(batch) if part.dtype != tf.string)
    first = tf.sparse.to_dense(first) if isinstance(first, tf.SparseTensor) else first
    return [float(tf.reduce_sum(tf.cast(row, tf.float64))) for row in first]


def homogeneous(size: int) -> list[JobContext]:
    return [JobContext("job", "homogeneous", rank=at, size=size, local_size=size, local_rank=at) for at in range(size)]


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch, serve: Any) -> Callable[..., list[Data]]:
    """`shares(make, 2, 3)`: what two ranks get with three workers."""

    def call(make: Callable[[], Any], ranks: int, workers: int) -> list[Data]:
        found = []
        for job in serve(workers).ranks(ranks) if workers else homogeneous(ranks):
            monkeypatch.setattr("tfhet.planes.distribution._ordinals", itertools.count())
            found.append(distribute(make(), training=False, job=job))
        return found

    return call


@pytest.mark.parametrize(
    ("kind", "ranks", "workers"),
    [
        *((kind, 2, 0) for kind in MAKES),
        *((kind, 3, 0) for kind in ("one example over", "padded", "shuffled records", "filter")),
        *((kind, 1, 2) for kind in ("zip", "padded", "records")),
        *((kind, 2, 2) for kind in ("shuffled", "records", "pipeline")),
    ],
)
def test_every_pass_is_whole_and_equal(shares, files, kind, ranks, workers):
    make = lambda: MAKES[kind](files)  # noqa: E731
    alone = [examples(batch) for batch in distribute(make(), training=False, job=JobContext("job", "local"))]
    found = shares(make, ranks, workers)
    counts = set()
    for _ in range(3):
        passed = [[examples(batch) for batch in share] for share in found]
        assert sorted(itertools.chain(*itertools.chain(*passed))) == sorted(itertools.chain(*alone))
        counts |= {len(batches) for batches in passed}
        assert max(map(len, itertools.chain(*passed))) <= max(map(len, alone))
    assert counts == {int(share.cardinality()) for share in found} and len(counts) == 1
    assert all(share.element_spec == distribute(make(), training=False).element_spec for share in found)


def ranged(count: int = 24) -> Data:
    return Data.range(count).batch(5)


@pytest.mark.parametrize(
    ("make", "ranks"),
    [
        (lambda: Data.range(5), 2),
        (lambda: ranged(1), 2),
        (lambda: Data.range(25).batch(5, drop_remainder=True), 2),
        (lambda: ranged(25).map(lambda x: (x, tf.shape(x)[0])), 2),
        (lambda: ranged(24).repeat(2).take(7), 2),
        (lambda: Data.range(4).flat_map(Data.range).batch(1), 5),
    ],
    ids=["single elements", "too few", "whole batches", "not divisible", "a cut of repetitions", "too few, counted"],
)
def test_data_without_equal_shares_are_refused(shares, make, ranks):
    with pytest.raises(UsageError, match="let every rank read all"):
        shares(make, ranks, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Data.range(6),
        lambda: Data.range(43).batch(5, drop_remainder=True),
        lambda: ranged(20).map(lambda x: (x, tf.shape(x)[0])),
    ],
    ids=["single elements", "whole batches", "not divisible"],
)
def test_elements_that_cannot_be_divided_stay_whole(shares, make):
    alone = sorted(str(element) for element in make().as_numpy_iterator())
    found = [[str(element) for element in share.as_numpy_iterator()] for share in shares(make, 2, 0)]
    assert len(found[0]) == len(found[1])
    assert sorted(itertools.chain(*found)) == alone


def test_sequences_made_by_batch_stay_whole(shares):
    def make() -> Data:
        return Data.range(60).batch(6, drop_remainder=True).map(lambda x: (x[:-1], x[1:])).batch(3)

    found = [[row for rows, _ in share for row in rows.numpy().tolist()] for share in shares(make, 2, 0)]
    assert sorted(itertools.chain(*found)) == [row for rows, _ in make() for row in rows.numpy().tolist()]


@pytest.mark.parametrize("change", [-1, 1, -4, 4])
def test_changed_data_end_a_pass_with_an_error(shares, tmp_path, change):
    file, count = tmp_path / "lines.txt", 20

    def write(lines: int) -> None:
        file.write_text("".join(f"{number}\n" for number in range(lines)))

    write(count)
    (share,) = shares(lambda: tf.data.TextLineDataset(str(file)).batch(4), 1, 1)
    assert [len(batch) for batch in share] == [4] * 5
    write(count + change)
    with pytest.raises(tf.errors.InvalidArgumentError, match="20 examples"):
        list(share)


def test_values_of_ranks_that_do_not_call_are_missed():
    with pytest.raises(NotReady, match="same order"):
        gather("key", 1, 2, limit_s=0.0)
