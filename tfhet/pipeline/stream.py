"""The flow of examples in tf.data."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def side_by_side(splits: tf.data.Dataset, read: Callable[..., tf.data.Dataset], interleave: int) -> tf.data.Dataset:
    """Returns the records of a stream of splits, `interleave` of them at a time, one example of each in turn. The order
    is fixed: the next split of the stream takes the place of one that has ended, a turn later. Under DYNAMIC sharding
    each worker holds `interleave` splits, and each split still goes to one worker, once. In a stream without end the
    last splits of a pass are read together with the first of the next, and every pass has each example once."""
    parallel = {} if interleave == 1 else {"num_parallel_calls": interleave, "deterministic": True}
    return splits.interleave(read, cycle_length=interleave, block_length=1, **parallel)


def cached(records: tf.data.Dataset, directory: str, fingerprint: str, split: tf.Tensor) -> tf.data.Dataset:
    """Returns the records of one split: written to `directory` at the first reading, read from there when complete.

    fingerprint: of the source, whose cache is separate from other sources' caches. split: int64 []. tf.data's snapshot
    keeps unfinished files apart from complete ones: an interrupted reader leaves a part that is never read, and two
    readers may write the same split at the same time (tf.data's `cache` would end both with an error). No lock is
    needed, so hosts may share the directory.
    """
    place = tf.strings.join([f"{directory.rstrip('/')}/{fingerprint[:16]}/split-", tf.strings.as_string(split)])
    return records.snapshot(
        place,
        compression=None,
        # One file, in the order of the source.
        shard_func=lambda *_: tf.constant(0, tf.int64),
        reader_func=lambda files: files.flat_map(lambda file: file),
    )
