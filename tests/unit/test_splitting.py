from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import tfhet
from tfhet.datasets import divisible, share_of
from tfhet.errors import UsageError
from tfhet.source import Scalar, TFRecordSource

Data = tf.data.Dataset


def numbers(data: tf.data.Dataset) -> Counter:
    return Counter(
        int(number) for element in data for number in np.ravel(np.asarray(tf.nest.flatten(element)[0].numpy()))
    )


def pairs() -> tf.data.Dataset:
    return Data.zip((Data.range(40).map(lambda x: x), Data.range(40)))


DATA: dict[str, Callable[[], tf.data.Dataset]] = {
    "range": lambda: Data.range(40),
    "pairs": pairs,
    "batches": lambda: Data.range(40).batch(5),
    "shuffled": lambda: Data.range(40).shuffle(9).map(lambda x: x),
    "shuffled_batches_of_pairs": lambda: pairs().shuffle(64).batch(4).prefetch(1),
    "taken": lambda: Data.range(50).take(40).batch(4),
}


@pytest.mark.parametrize("name", DATA)
def test_parts_of_a_data_set(name):
    train, validation = tfhet.split(DATA[name](), 0.8, seed=1)
    again, _ = tfhet.split(DATA[name](), 0.8, seed=1)
    assert numbers(train) + numbers(validation) == Counter(range(40))
    assert len(numbers(train)) == 32
    assert numbers(train) == numbers(again)
    assert train.element_spec == DATA[name]().element_spec
    assert int(train.cardinality()) > 0


@pytest.mark.parametrize("name", ["pairs", "shuffled"])
def test_distributed_parts_are_the_same(name):
    train = tfhet.split(DATA[name](), 0.8)[0].shuffle(20).batch(3)
    assert numbers(divisible(train)) == numbers(train)
    assert sum((numbers(share_of(train, 2, rank)) for rank in range(2)), Counter()) == numbers(train)


def test_parts_without_options_are_shared():
    (bare,) = tfhet.split(Data.range(40), 0.8)[0]._inputs()
    assert sum((numbers(share_of(bare.batch(3), 2, rank)) for rank in range(2)), Counter()) == numbers(bare)


def test_parts_of_sequences():
    files = [f"{index}.jpg" for index in range(10)]
    train, validation = tfhet.split(files, 0.7)
    assert sorted(train + validation) == files
    assert (len(train), train) == (7, sorted(train))
    assert tfhet.split(10, 0.7) == tuple([int(file[0]) for file in part] for part in (train, validation))
    assert [list(part) for part in tfhet.split(np.arange(10), 0.7)] == [*map(list, tfhet.split(10, 0.7))]
    assert tfhet.split(files, 0.7, seed=1)[0] != train


def test_parts_of_map_style_datasets():
    class Squares:
        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> int:
            return index**2

    train, validation = tfhet.split(Squares(), 0.5)
    assert sorted([*train, *validation]) == [index**2 for index in range(10)]


def test_parts_of_record_files(tmp_path):
    for index in range(4):
        with tf.io.TFRecordWriter(str(tmp_path / f"{index}.tfrecord")) as writer:
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[index]))
            writer.write(tf.train.Example(features=tf.train.Features(feature={"label": feature})).SerializeToString())
    source = TFRecordSource(sorted(map(str, tmp_path.iterdir())), {"label": Scalar("int64")})
    train, validation = tfhet.split(source, 0.75)
    assert (train.split_count(), validation.split_count()) == (3, 1)
    assert sorted(train.files + validation.files) == sorted(source.files)


@pytest.mark.parametrize(
    ("data", "fraction"),
    [
        (10, 1.0),
        (10, 0.0),
        (1, 0.5),
        ("files/*", 0.5),
        (3.5, 0.5),
        ((np.zeros(9), np.zeros(9)), 0.5),
        (Data.range(9).cache("file"), 0.5),
        (tf.data.TextLineDataset(["file"]), 0.5),
        (Data.range(9).concatenate(tf.data.TextLineDataset(["9"]).map(lambda x: tf.constant(1, tf.int64))), 0.5),
    ],
)
def test_wrong_use_is_refused(data, fraction):
    with pytest.raises(UsageError):
        tfhet.split(data, fraction)
