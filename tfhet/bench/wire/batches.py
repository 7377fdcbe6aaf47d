"""The batches that are moved: pictures with the noise of a camera, which compress as decoded photos do."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

HELD_BYTES = 32_000_000
"""A worker holds at least so much, so that small batches do not stay in a CPU's cache, and two batches at least."""
TILE = 1 << 20
"""After so many pixels a batch repeats itself: much further than Snappy looks back (64 KiB)."""
NOISE = 8.0
"""Grey levels, standard deviation: what is fine in a picture, too."""


def held_count(size: int) -> int:
    """Batches of `size` bytes that are held."""
    return max(2, math.ceil(HELD_BYTES / size))


def held(dtype: str, size: int) -> tf.data.Dataset:
    """Batches of `size` bytes that lie in memory once each was made, without end: [size / itemsize] of `dtype`."""
    import tensorflow as tf

    # Converted by AutoGraph it would leave a file in the folder for temporary ones.
    make = tf.autograph.experimental.do_not_convert(functools.partial(batch, dtype, size))
    return tf.data.Dataset.range(held_count(size)).map(make).cache().repeat()


def batch(dtype: str, size: int, index: tf.Tensor | int) -> tf.Tensor:
    """The batch of this number, the same in every process: uint8, or float32 as the same pixels from 0 to 1."""
    import tensorflow as tf

    kind = tf.as_dtype(dtype)
    count = size // kind.size
    pixels = min(count, TILE)
    place = tf.range(pixels, dtype=tf.float32)
    noise = tf.random.stateless_normal([pixels], tf.stack([tf.cast(index, tf.int32), 0]), stddev=NOISE)
    levels = 127.0 + 80.0 * tf.sin(place / 517.0) + 40.0 * tf.sin(place / 7919.0) + noise
    tile = tf.saturate_cast(tf.round(levels), tf.uint8)
    whole = tf.tile(tile, [math.ceil(count / pixels)])[:count]
    return whole if kind == tf.uint8 else tf.cast(whole, kind) / 255.0
