"""Rows by the kind of elements: strings, ragged, sparse, nested, padded, looked up."""

from __future__ import annotations

import typing
from pathlib import Path

import numpy as np
import tensorflow as tf

from differential.files import EXAMPLES
from differential.row import BATCH, row
from differential.rows.order import numbers


class Pair(typing.NamedTuple):
    x: tf.Tensor
    y: tf.Tensor


def stripped(parts: tuple) -> tuple:
    """Padded examples without their padding, which depends on the batch."""
    return tuple(np.trim_zeros(part) if np.ndim(part) else part for part in parts)


def sequences() -> tf.data.Dataset:
    """Numbers, each repeated as often as its remainder of 5 says."""
    return numbers().map(lambda i: tf.fill([i % 5 + 1], i + 1))


@row()
def strings(files: Path) -> tf.data.Dataset:
    """Byte strings with any bytes."""
    return tf.data.Dataset.from_tensor_slices([bytes([i, 0, 255 - i]) for i in range(EXAMPLES)]).batch(BATCH)


@row()
def named_and_nested(files: Path) -> tf.data.Dataset:
    """Dictionaries in tuples in dictionaries."""
    return numbers().map(lambda i: {"b": (i, {"c": tf.cast(i, tf.float16)}), "a": (i > 3, i + 1)}).batch(BATCH)


@row()
def named_tuples(files: Path) -> tf.data.Dataset:
    """Elements of a NamedTuple."""
    return numbers().map(lambda i: Pair(i, tf.cast(i, tf.float64))).batch(BATCH)


@row()
def kinds(files: Path) -> tf.data.Dataset:
    """Unusual dtypes and an empty tensor."""
    kinds = (tf.uint16, tf.bfloat16, tf.complex64, tf.bool)
    return numbers().map(lambda i: (i, *(tf.cast(i, kind) for kind in kinds), tf.zeros([0, 2]))).batch(BATCH)


@row(key=stripped)
def padded(files: Path) -> tf.data.Dataset:
    """padded_batch to the longest of each batch."""
    return sequences().padded_batch(BATCH)


@row(key=stripped)
def padded_to_a_length(files: Path) -> tf.data.Dataset:
    """padded_batch with fixed shapes, and labels."""
    return sequences().map(lambda x: (x, x[0])).padded_batch(BATCH, ([6], []), drop_remainder=True)


@row(key=stripped, holds=EXAMPLES, recipe="padded", advice="divided", own_batches=True)
def bucketed(files: Path) -> tf.data.Dataset:
    """bucket_by_sequence_length: the text guides."""
    return sequences().bucket_by_sequence_length(tf.size, [3, 5], [BATCH, BATCH, BATCH])


@row()
def ragged(files: Path) -> tf.data.Dataset:
    """ragged_batch."""
    return sequences().ragged_batch(BATCH)


@row()
def ragged_slices(files: Path) -> tf.data.Dataset:
    """Slices of a ragged tensor."""
    return tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[i] * (i % 4) for i in range(EXAMPLES)])).batch(BATCH)


@row()
def sparse(files: Path) -> tf.data.Dataset:
    """Sparse vectors."""
    return numbers().map(lambda i: (i, tf.sparse.from_dense(tf.one_hot(i % 5, 5)))).batch(BATCH)


@row()
def sparse_slices(files: Path) -> tf.data.Dataset:
    """Slices of a sparse matrix."""
    return tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense(np.diag(np.arange(1, EXAMPLES + 1)))).batch(BATCH)


@row()
def looked_up(files: Path) -> tf.data.Dataset:
    """Words to numbers by a StaticHashTable."""
    words = [f"w{i}" for i in range(EXAMPLES)]
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(words, range(EXAMPLES)), -1)
    return tf.data.Dataset.from_tensor_slices(words).map(lambda word: (word, table.lookup(word))).batch(BATCH)


@row()
def single_element(files: Path) -> tf.data.Dataset:
    """Statistics that get_single_element makes before the pipeline."""
    total = numbers().reduce(tf.constant(0, tf.int64), lambda a, b: a + b)
    largest = numbers().batch(EXAMPLES).get_single_element()[-1]
    return numbers().map(lambda i: (i, i * 1000 // total, largest)).batch(BATCH)


@row()
def errors_ignored(files: Path) -> tf.data.Dataset:
    """ignore_errors drops what cannot be decoded."""

    def checked(i: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.assert_positive(i % 8)]):
            return i + 1

    return numbers().map(checked).ignore_errors().batch(BATCH)


@row()
def with_options(files: Path) -> tf.data.Dataset:
    """Options of determinism and threads."""
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 2
    options.autotune.enabled = False
    return numbers().map(lambda i: i * 7, 2).batch(BATCH).with_options(options).prefetch(2)


@row(own_batches=True)
def weighted(files: Path) -> tf.data.Dataset:
    """A third component: the weight of the example."""
    return tf.data.Dataset.from_tensor_slices((np.arange(EXAMPLES), np.arange(EXAMPLES) % 2, np.ones(EXAMPLES))).batch(
        BATCH
    )


@row(batch=0, recipe="arrays", advice="divided")
def whole_data_in_one_element(files: Path) -> tf.data.Dataset:
    """from_tensors: one batch that holds all."""
    return tf.data.Dataset.from_tensors(np.arange(EXAMPLES)).repeat(4)
