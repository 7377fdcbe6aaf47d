"""Private API of TensorFlow that the local plane uses, seen in TensorFlow 2.15.1 and 2.21."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute


def auto_shard(data: tf.data.Dataset, ranks: int, rank: int) -> tf.data.Dataset:
    """The share of one rank, by the data set's auto-shard policy, which the public API offers to strategies only."""
    return distribute._AutoShardDataset(data, ranks, rank)
