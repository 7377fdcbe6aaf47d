"""Rows whose examples are drawn at random, and mixtures."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from differential.files import EXAMPLES
from differential.row import BATCH, row
from differential.rows.order import numbers


def is_number(parts: tuple) -> bool:
    return 0 <= parts[0] < EXAMPLES


@row(steps=16, draws=True, key=lambda parts: len(parts))
def random_numbers(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Dataset.random, endless."""
    return tf.data.Dataset.random(seed=4).batch(BATCH), numbers().batch(BATCH)


@row(key=lambda parts: parts[0])
def noise(files: Path) -> tf.data.Dataset:
    """tf.random in map."""
    return numbers().map(lambda i: (i, tf.random.normal([2]))).batch(BATCH)


@row(steps=16, recipe="endless", advice="result of tfhet.distribute")
def counter(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Dataset.counter, endless, taken modulo the examples."""
    return tf.data.Dataset.counter().map(lambda i: i % EXAMPLES).batch(BATCH), numbers().batch(BATCH)


@row(steps=16, draws=True, key=is_number, own_batches=True, recipe="balanced", advice="")
def resampled(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """rejection_resample of endless data to another share of the classes: the imbalanced data guide."""
    pairs = numbers().map(lambda i: (i, tf.cast(i % 4 == 0, tf.int32)))
    even = pairs.repeat().rejection_resample(lambda _, kind: kind, [0.5, 0.5], [0.75, 0.25], seed=1)
    return even.map(lambda _, pair: pair).batch(BATCH), pairs.batch(BATCH)


@row(steps=16, draws=True, key=is_number)
def balanced(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """sample_from_datasets of two endless classes: the imbalanced data guide."""
    classes = [numbers().filter(lambda i, at=at: (i % 4 == 0) == at).repeat() for at in (False, True)]
    return tf.data.Dataset.sample_from_datasets(classes, [0.5, 0.5]).batch(BATCH), numbers().batch(BATCH)
