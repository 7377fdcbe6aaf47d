"""Input for the benchmarks: real images as TFRecord files, repeated to the number of examples that is asked for."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfhet.source import TFRecordSource

SHARDS = 4
"""Few: opening a file is not what is measured, and real files hold far more records than these."""


def repeated_digits(directory: Path, examples: int, cache: Path | None = None) -> TFRecordSource:
    """Writes `examples` records of scikit-learn's digits (32x32x3, uint8, raw) to SHARDS files in `directory`.

    The training records are taken in turn, as often as needed, and dealt out to the files one by one. `cache` is where
    the digits themselves lie. Raises UsageError when scikit-learn is missing and the digits have not been written yet.
    """
    import tensorflow as tf

    from tfhet.source import TFRecordSource
    from tfhet.source.digits import FEATURES, digits

    train = TFRecordSource.from_directory(digits(cache=cache) / "train")
    records = list(tf.data.TFRecordDataset(list(train.files)).as_numpy_iterator())
    shards = min(SHARDS, examples)
    files = [str(directory / f"digits-{index:05d}-of-{shards:05d}.tfrecord") for index in range(shards)]
    writers = [tf.io.TFRecordWriter(file) for file in files]
    for index, record in zip(range(examples), itertools.cycle(records), strict=False):
        writers[index % shards].write(record)
    for writer in writers:
        writer.close()
    return TFRecordSource(files, FEATURES)


def photos(examples: int, seed: int = 0, cache: Path | None = None) -> TFRecordSource:
    """`examples` JPEG photos of ImageNet's sizes, cut from scikit-learn's by `seed`, in TFRecord files; made once, then
    kept in `cache`. Raises UsageError when scikit-learn is missing and they have not been made yet."""
    from tfhet.source import TFRecordSource
    from tfhet.source import photos as room

    return TFRecordSource.from_directory(room.photos(count=examples, seed=seed, cache=cache))
