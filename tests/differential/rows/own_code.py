"""Rows with Python in the pipeline, and tfhet's own ways to declare one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tfhet
from differential.files import EXAMPLES
from differential.row import BATCH, row
from differential.rows.order import numbers

PYTHON = {"advice": "--data_plane feed"}


def numbered(shard: Any, files: str) -> tf.data.Dataset:
    """The function of a feed: examples from a generator."""

    def examples() -> Iterator[int]:
        yield from range(shard.index, EXAMPLES, shard.count)

    return tf.data.Dataset.from_generator(examples, output_signature=tf.TensorSpec([], tf.int64)).batch(BATCH)


def doubled(shard: Any, files: str) -> tf.data.Dataset:
    """The function of a feed: Python in map."""
    data = numbers().shard(shard.count, shard.index)
    data = data.map(lambda i: tf.ensure_shape(tf.numpy_function(lambda n: n * 2, [i], tf.int64), []))
    return data.batch(BATCH)


@row(recipe="function_with_generator", **PYTHON)
def generator(files: Path) -> tf.data.Dataset:
    """from_generator."""
    return numbered(tfhet.planes.feed.Shard(0, 1), str(files))


@row(recipe="function_with_numpy_function", **PYTHON)
def numpy_function(files: Path) -> tf.data.Dataset:
    """numpy_function in map."""
    return doubled(tfhet.planes.feed.Shard(0, 1), str(files))


@row(recipe="function_with_numpy_function", **PYTHON)
def py_function(files: Path) -> tf.data.Dataset:
    """py_function in a function of a map, of a flat_map."""

    def larger(i: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.py_function(lambda n: n + 1, [i], tf.int64), [])

    return numbers().flat_map(lambda i: tf.data.Dataset.from_tensors(i).map(larger)).batch(BATCH)


@row(plane="feed", own_batches=True)
def function_with_generator(files: Path) -> Callable[..., tf.data.Dataset]:
    """A function that returns from_generator, called on the data hosts."""
    return numbered


@row(plane="feed", own_batches=True)
def function_with_numpy_function(files: Path) -> Callable[..., tf.data.Dataset]:
    """A function that returns a pipeline with Python in map."""
    return doubled


@row(own_batches=True)
def pipeline(files: Path) -> tfhet.Pipeline:
    """A declared pipeline."""
    source = tfhet.SyntheticSource(examples=EXAMPLES, splits=8, shape=(8, 8, 3), seed=3)
    return tfhet.Pipeline(source, "rescale()", batch_size=BATCH, shuffle=0)


@row()
def split_by_seed(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """tfhet.split of examples."""
    with np.load(files / "arrays.npz") as loaded:
        data = tf.data.Dataset.from_tensor_slices((loaded["x"], loaded["y"]))
    training, validation = tfhet.split(data, 0.75, seed=1)
    return training.batch(BATCH), validation.batch(BATCH)
