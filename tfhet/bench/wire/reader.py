"""The end of a tf.data service way that reads, as a rank of a training does: batch by batch, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet.bench.wire.batches import batch, held, held_count
from tfhet.bench.wire.end import End
from tfhet.bench.wire.load import SNAPPY

if TYPE_CHECKING:
    import tensorflow as tf

DATASET = "held"


def read(dispatcher: str, workers: int, rank: int, dtype: str, size: int, compression: str) -> End:
    """One reader of the job that all ranks share. Rank 0 makes the data set known, reads until the workers hold all of
    it, and says how many `wire_bytes` a batch has."""
    import tensorflow as tf

    from tfhet.placement import without_autotune
    from tfhet.planes.tf_service import Transport

    transport = Transport(compression="AUTO" if compression == SNAPPY else None)
    dataset = held(dtype, size)
    if rank == 0:
        transport.publish(dispatcher, dataset, DATASET)
    else:
        transport.wait_published(dispatcher, DATASET)
    served = transport.read(dispatcher, DATASET, dataset.element_spec, f"{DATASET}.job", "off")
    batches = iter(without_autotune(served))
    if (got := int(tf.size(next(batches)))) != size // tf.as_dtype(dtype).size:
        raise AssertionError(f"a batch of {got} values came instead of {size} bytes of {dtype}")

    def pull(count: int) -> None:
        for _ in range(count):
            next(batches)

    if rank:
        return End(pull)
    pull(2 * workers * held_count(size))  # twice: one worker may be ahead of another
    return End(pull, {"wire_bytes": compressed_bytes(batch(dtype, size, 0)) if compression == SNAPPY else size})


def compressed_bytes(element: tf.Tensor) -> int:
    """What tf.data service makes of an element with Snappy, in bytes."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import compression_ops

    return int(tf.strings.length(tf.io.serialize_tensor(compression_ops.compress(element))))
