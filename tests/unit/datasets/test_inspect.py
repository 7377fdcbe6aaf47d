from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfhet.datasets import inspect, without_last_assertion


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"{index}.tfrecord") for index in range(3)]
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            writer.write(b"x")
    return paths


def numbers() -> tf.data.Dataset:
    return tf.data.Dataset.range(6)


def test_chain_has_one_root():
    found = inspect(numbers().map(lambda x: x + 1).batch(2).repeat().prefetch(1))
    assert (found.roots, found.splits) == (1, 6)
    assert not found.reads_files and not found.python_functions
    assert not found.seeded_shuffle and not found.unseeded_shuffle


def test_joined_data_sets_have_several_roots():
    for data in (tf.data.Dataset.zip((numbers(), numbers())), numbers().concatenate(numbers())):
        found = inspect(data)
        assert (found.roots, found.splits) == (2, None)


def test_endless_root_has_its_splits():
    endless = tf.data.Dataset.from_tensors(0).repeat()
    assert inspect(endless).splits == 1


def test_files_are_found_inside_functions(files: list[str]):
    listed = tf.data.Dataset.from_tensor_slices(files)
    for data in (
        listed.interleave(tf.data.TFRecordDataset),
        listed.interleave(lambda file: tf.data.TFRecordDataset(file).map(tf.strings.length)),
        listed.flat_map(tf.data.TextLineDataset),
        tf.data.TFRecordDataset(files),
        tf.data.Dataset.list_files(files, shuffle=True, seed=1).interleave(tf.data.TFRecordDataset),
    ):
        found = inspect(data.batch(2))
        assert found.reads_files
        assert (found.roots, found.splits) == (1, 3)


def test_python_functions_are_named():
    def plain(x: np.ndarray) -> np.ndarray:
        return x

    def eager(x: tf.Tensor) -> tf.Tensor:
        return x

    spec = tf.TensorSpec([], tf.int64)
    made = tf.data.Dataset.from_generator(lambda: iter(range(3)), output_signature=spec)
    mapped = numbers().map(lambda x: tf.numpy_function(plain, [x], tf.int64))
    assert inspect(made.batch(2)).python_functions == ("from_generator", "tf.numpy_function")
    assert inspect(mapped).python_functions == ("tf.numpy_function",)
    assert inspect(numbers().map(lambda x: tf.py_function(eager, [x], tf.int64))).python_functions == (
        "tf.py_function",
    )
    nested = numbers().flat_map(lambda x: numbers().map(lambda y: tf.numpy_function(plain, [y], tf.int64)))
    assert inspect(nested).python_functions == ("tf.numpy_function",)


def test_shuffles_differ_by_seed():
    assert inspect(numbers().shuffle(3)).unseeded_shuffle
    assert not inspect(numbers().shuffle(3)).seeded_shuffle
    for seed in (0, 5):
        found = inspect(numbers().shuffle(3, seed=seed).batch(2))
        assert found.seeded_shuffle and not found.unseeded_shuffle
    both = inspect(numbers().shuffle(3).batch(2).shuffle(3, seed=1))
    assert both.seeded_shuffle and both.unseeded_shuffle


def test_nothing_of_the_data_set_runs(tmp_path: Path):
    missing = tf.data.TFRecordDataset([str(tmp_path / "not-there.tfrecord")])
    assert inspect(missing.map(tf.strings.length)).reads_files


def test_cardinality_assertion_is_found_and_removed():
    counted = numbers().apply(tf.data.experimental.assert_cardinality(6))
    assert inspect(counted.batch(2)).asserts_cardinality
    assert not inspect(numbers()).asserts_cardinality
    assert not inspect(without_last_assertion(counted)).asserts_cardinality
    plain = numbers()
    assert without_last_assertion(plain) is plain
