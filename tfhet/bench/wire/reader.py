"""The batches that are moved, and the end of a tf.data service way that reads them as a rank of a training does.

A batch is a picture with the noise of a camera, so it compresses as decoded photos do.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from tfhet.bench.wire.end import End
from tfhet.bench.wire.load import SNAPPY

if TYPE_CHECKING:
    import tensorflow as tf

DATASET = "held"
HELD_BYTES = 32_000_000
"""Minimum bytes that a worker holds, so that small batches do not stay in a CPU's cache."""
TILE = 1 << 20
"""Number of pixels after which a batch repeats itself: much further than Snappy looks back (64 KiB)."""
NOISE = 8.0
"""Standard deviation of the noise, in grey levels."""


def held_count(size: int) -> int:
    """Returns the number of batches of `size` bytes that a worker holds."""
    return max(2, math.ceil(HELD_BYTES / size))


def batch(dtype: str, size: int, index: tf.Tensor | int) -> tf.Tensor:
    """Returns batch number `index`, [size / itemsize], the same in every process: uint8, or float32 from 0 to 1."""
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


OTHER_HOST = "another-host"
"""A reader that calls its host so gets batches over TCP, as between hosts."""


def read(
    key: str,
    dispatcher: str,
    workers: int,
    rank: int,
    dtype: str,
    size: int,
    compression: str,
    host: str = OTHER_HOST,
    encrypted: bool = False,
) -> End:
    """Opens a reader of the job of all ranks; rank 0 registers the data set and reports `wire_bytes` of a batch. key:
    of the job, in hexadecimal digits; "": of TensorFlow's own servers. host: name of the reader's."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import compression_ops

    from tfhet.placement import without_autotune
    from tfhet.planes.tf_service import Transport, Wire

    wire = Wire.join(bytes.fromhex(key), host, encrypted=encrypted) if key else Wire("grpc")
    transport = Transport(compression="AUTO" if compression == SNAPPY else None)
    # Converted by AutoGraph the function would leave a file in the folder for temporary ones.
    make = tf.autograph.experimental.do_not_convert(functools.partial(batch, dtype, size))
    dataset = tf.data.Dataset.range(held_count(size)).map(make).cache().repeat()
    if rank == 0:
        transport.publish(wire, dispatcher, dataset, DATASET)
    else:
        transport.wait_published(wire, dispatcher, DATASET)
    served = transport.read(wire, dispatcher, DATASET, dataset.element_spec, "off")
    batches = iter(without_autotune(served))
    if (got := int(tf.size(next(batches)))) != size // tf.as_dtype(dtype).size:
        raise AssertionError(f"a batch of {got} values came instead of {size} bytes of {dtype}")

    def pull(count: int) -> None:
        for _ in range(count):
            next(batches)

    if rank:
        return End(pull)
    pull(2 * workers * held_count(size))  # twice: one worker may be ahead of another
    if compression == SNAPPY:
        sent = tf.io.serialize_tensor(compression_ops.compress(batch(dtype, size, 0)))
        size = int(tf.strings.length(sent))
    return End(pull, {"wire_bytes": size})
