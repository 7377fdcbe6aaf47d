from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfhet.datasets import divisible, share_of
from tfhet.errors import UsageError

Data = tf.data.Dataset


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three files of 8, 9 and 10 lines, and of as many records: `0-0`, `0-1`, ..."""
    folder: Path = tmp_path_factory.mktemp("files")
    paths = [str(folder / str(index)) for index in range(3)]
    for index, path in enumerate(paths):
        lines = [f"{index}-{number}" for number in range(8 + index)]
        Path(f"{path}.txt").write_text("\n".join(lines))
        with tf.io.TFRecordWriter(f"{path}.tfrecord") as writer:
            for line in lines:
                writer.write(line.encode())
    return paths


def elements(data: tf.data.Dataset) -> list[str]:
    def plain(part: object) -> object:
        part = tf.sparse.to_dense(part) if isinstance(part, tf.SparseTensor) else part
        return part.to_list() if isinstance(part, tf.RaggedTensor) else np.asarray(part.numpy()).tolist()

    return [repr([plain(part) for part in tf.nest.flatten(element)]) for element in data]


def numbers(count: int = 24) -> tf.data.Dataset:
    return Data.range(count)


def doubled(count: int = 24) -> tf.data.Dataset:
    return numbers(count).map(lambda x: x * 2, num_parallel_calls=2)


def mixed() -> tf.data.Dataset:
    return numbers().shuffle(24, seed=3, reshuffle_each_iteration=False)


def drawn() -> tf.data.Dataset:
    return Data.from_tensor_slices((np.arange(24), np.arange(24.0))).shuffle(24, reshuffle_each_iteration=False)


def ragged() -> tf.data.Dataset:
    return Data.from_tensor_slices((tf.ragged.constant([[1], [2, 3], [], [4]]), np.arange(4)))


def series() -> tf.data.Dataset:
    values = np.arange(40.0).reshape(20, 2)
    return tf.keras.utils.timeseries_dataset_from_array(values, np.arange(20), 4, batch_size=3)


def looked_up() -> tf.data.Dataset:
    initializer = tf.lookup.KeyValueTensorInitializer(tf.range(9), tf.range(9) * 2)
    table = tf.lookup.StaticHashTable(initializer, -1)
    return Data.range(9, output_type=tf.int32).map(table.lookup).take(6)


ORDERED: dict[str, Callable[[], tf.data.Dataset]] = {
    "batches": lambda: numbers().map(lambda x: x + 1).batch(5),
    "dropped_remainder": lambda: numbers().batch(5, drop_remainder=True),
    "batches_of_batches": lambda: numbers().batch(3).batch(4),
    "dict": lambda: Data.from_tensor_slices({"a": np.arange(9), "b": ["x"] * 9}).take(7),
    "tuple_of_one": lambda: Data.from_tensor_slices((np.arange(9),)).map(lambda x: (x,)).skip(2),
    "zip": lambda: Data.zip((numbers(), doubled())).map(lambda a, b: (a, b + 1)).batch(5),
    "nested_zip": lambda: Data.zip({"x": numbers(), "y": (doubled(), numbers(30))}).batch(5),
    "zip_of_batches": lambda: Data.zip((numbers().batch(5), doubled().batch(5).map(lambda x: x + 1))).take(4),
    "zip_of_endless": lambda: Data.zip((numbers(4).repeat(), numbers(6).repeat())).take(20),
    "zip_with_repeated": lambda: Data.zip((numbers(9), numbers(4).repeat())),
    "enumerate": lambda: doubled().enumerate().batch(3),
    "counters": lambda: Data.zip((numbers(), (Data.counter(5, 2), Data.counter()))).batch(7),
    "take_of_mixed": lambda: mixed().take(7).batch(2),
    "skip_of_mixed": lambda: mixed().skip(7).batch(2),
    "take_of_drawn": lambda: _drawn.take(7),
    "take_of_repeated": lambda: numbers(5).repeat().take(13),
    "skip_of_endless": lambda: numbers(5).repeat().skip(7).take(9),
    "shard": lambda: numbers().shard(3, 1),
    "take_of_batches": lambda: numbers().batch(5).take(3),
    "shard_of_batches": lambda: numbers().batch(5).map(lambda x: x + 1).shard(2, 0),
    "partial_batches": lambda: numbers(12).batch(5).repeat(2).take(4),
    "concatenate": lambda: doubled(5).concatenate(Data.range(100, 104)).batch(2),
    "ragged": lambda: ragged().map(lambda a, b: (a * 2, b)).skip(1),
    "sparse": lambda: Data.from_tensor_slices(tf.sparse.from_dense([[1, 0], [0, 2], [3, 0]])).take(2),
    "series": series,
    "table": looked_up,
    "cached": lambda: numbers().cache().take(9).cache(),
    "windows": lambda: doubled().window(5, shift=3, stride=2).flat_map(lambda w: w.batch(5)),
    "windows_of_pairs": lambda: (
        Data.zip((numbers(), doubled())).window(5).flat_map(lambda a, b: Data.zip((a, b)).batch(5))
    ),
    "padded": lambda: Data.range(1, 8).map(tf.range).take(5).padded_batch(2),
    "counted": lambda: doubled().apply(tf.data.experimental.assert_cardinality(24)).batch(2),
}
_drawn = drawn()


@pytest.mark.parametrize("name", ORDERED)
def test_known_order_is_kept(name):
    data = ORDERED[name]()
    made = divisible(data)
    assert elements(made) == elements(data)
    assert made.element_spec == data.element_spec


SHARED = ("zip", "enumerate", "take_of_mixed", "partial_batches", "concatenate", "series")
"""Of batches."""


@pytest.mark.parametrize("name", [*SHARED, "ragged", "windows", "windows_of_pairs"])
def test_shares_are_whole_and_disjoint(name):
    data = ORDERED[name]()
    shares = [share_of(data, 2, rank) for rank in range(2)]
    if name in SHARED:
        data, shares = data.unbatch(), [share.unbatch() for share in shares]
    each = [elements(share) for share in shares]
    assert Counter(each[0]) + Counter(each[1]) == Counter(elements(data))
    assert abs(len(each[0]) - len(each[1])) <= 1


READ = tf.data.TFRecordDataset
READERS: dict[str, Callable[[list[str], list[str]], tf.data.Dataset]] = {
    "records": lambda records, lines: READ(records),
    "interleaved": lambda records, lines: Data.from_tensor_slices(records).interleave(
        lambda file: READ(file).map(tf.strings.upper)
    ),
    "parallel": lambda records, lines: Data.from_tensor_slices(records).interleave(READ, num_parallel_calls=2),
    "shuffled": lambda records, lines: Data.list_files(records).interleave(lambda file: READ(file).shuffle(9)),
    "lines": lambda records, lines: tf.data.TextLineDataset(lines),
    "lines_in_parallel": lambda records, lines: tf.data.TextLineDataset(lines, num_parallel_reads=2),
    "some_files": lambda records, lines: Data.from_tensor_slices(records).skip(1).interleave(READ),
    "concatenated": lambda records, lines: (
        Data.from_tensor_slices(records).take(2).interleave(READ).concatenate(READ(records[2:]))
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_records_of_files_are_shared(files, name):
    data = READERS[name]([f"{file}.tfrecord" for file in files], [f"{file}.txt" for file in files])
    assert Counter(elements(divisible(data))) == Counter(elements(data))
    shares = [elements(share_of(data.batch(2), 2, rank).unbatch()) for rank in range(2)]
    assert Counter(shares[0]) + Counter(shares[1]) == Counter(elements(data))
    assert abs(len(shares[0]) - len(shares[1])) <= len(files)


def sampled(**how: bool) -> tf.data.Dataset:
    return Data.sample_from_datasets([numbers(), numbers(9)], **how)


REFUSED: dict[str, Callable[[], tf.data.Dataset]] = {
    "take_of_shuffled": lambda: numbers().shuffle(9).take(4),
    "take_of_reshuffled": lambda: numbers().shuffle(9, seed=1).take(4),
    "shard_of_shuffled": lambda: numbers().shuffle(9).shard(2, 0),
    "zip_of_shuffled": lambda: Data.zip((numbers().shuffle(9), numbers())),
    "take_of_records": lambda: tf.data.TFRecordDataset(["a"]).take(4),
    "enumerate_of_records": lambda: tf.data.TFRecordDataset(["a"]).enumerate(),
    "take_of_filtered": lambda: numbers().filter(lambda x: x > 3).take(4),
    "endless_zip": lambda: Data.zip((numbers().repeat(), numbers().repeat())),
    "unique": lambda: numbers().unique(),
    "scan": lambda: numbers().scan(tf.constant(0, tf.int64), lambda total, x: (total + x, total)),
    "take_while": lambda: numbers().take_while(lambda x: x < 5),
    "choose": lambda: Data.choose_from_datasets([numbers(), numbers()], Data.range(2).repeat(9)),
    "sample_that_stops": lambda: sampled(stop_on_empty_dataset=True),
    "drawn_by_a_function": lambda: doubled().shuffle(9, reshuffle_each_iteration=False).take(3),
    "csv": lambda: tf.data.experimental.CsvDataset(["a"], [tf.int32]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unknown_order_is_refused(name):
    with pytest.raises(UsageError):
        divisible(REFUSED[name]())


def test_saved_data_set_is_refused(tmp_path):
    numbers().save(str(tmp_path / "saved"))
    with pytest.raises(UsageError, match="TFRecord"):
        divisible(Data.load(str(tmp_path / "saved")))


def test_order_of_one_rank_is_no_order_of_several():
    with pytest.raises(UsageError, match="seed"):
        divisible(drawn().take(7), ranks=2)


def test_counter_is_divisible():
    assert elements(divisible(Data.counter(5, 2).batch(3)).take(2)) == ["[[5, 7, 9]]", "[[11, 13, 15]]"]


def test_shares_are_divisible():
    share = share_of(sampled(), 2, 0)
    assert elements(divisible(share.map(lambda x: x).batch(2))) and divisible(share) is share


def test_sampled_data_sets_are_divisible():
    assert Counter(elements(divisible(sampled()))) == Counter(elements(numbers())) + Counter(elements(numbers(9)))


@pytest.mark.parametrize("data", [Data.from_tensors(7).repeat(4), Data.range(3).repeat(4)], ids=["one", "range"])
def test_repeated_elements_are_shared_equally(data):
    shares = [elements(share_of(data, 2, rank)) for rank in range(2)]
    assert len(shares[0]) == len(shares[1]) and sorted(itertools.chain(*shares)) == sorted(elements(data))


@pytest.mark.parametrize("outer", [0, 2])
@pytest.mark.parametrize("data", [Data.range(60), Data.from_tensor_slices(list(range(60)))], ids=["range", "array"])
def test_sequences_made_by_batch_are_whole_in_training(data, outer):
    sequences = data.batch(6, drop_remainder=True).map(lambda x: x[:-1])
    data = sequences.batch(outer) if outer else sequences
    shares = [share_of(data, 2, rank, for_training=True) for rank in range(2)]
    shares = [share.unbatch() if outer else share for share in shares]
    found = sorted(row.tolist() for share in shares for row in share.as_numpy_iterator())
    assert found == [row.tolist() for row in sequences.as_numpy_iterator()]


def test_endless_counter_has_no_shares():
    with pytest.raises(UsageError, match="without end"):
        share_of(Data.range(2**62).batch(2), 2, 0)


def test_shares_of_whole_batches():
    batches = numbers().batch(5)
    shares = [share_of(batches, 2, rank, neighbours=5) for rank in range(2)]
    assert [elements(share) for share in shares] == [elements(batches.shard(2, rank)) for rank in range(2)]
    shares = [share_of(batches, 2, rank, for_training=True) for rank in range(2)]
    assert [len(elements(share)) for share in shares] == [3, 2]


def test_shares_do_not_depend_on_the_order():
    words = [f"{index}.jpg" for index in range(12)]
    first, second = share_of(Data.from_tensor_slices(words), 2, 0), share_of(Data.from_tensor_slices(words[::-1]), 2, 1)
    assert {*elements(first), *elements(second)} == {*elements(Data.from_tensor_slices(words))}
