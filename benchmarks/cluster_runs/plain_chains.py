"""Chains written in the style of AWS's example, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.cluster_runs import plain_photos as example_photos
from tfhet.bench import plain as example

if TYPE_CHECKING:
    import tensorflow as tf


def dataset(chain: str, files: Sequence[str], batch_size: int, repeat: int = 1) -> tf.data.Dataset:
    """(image, label) batches of a chain from TFRecord `files` of digits or of photos; `repeat` -1: without end."""
    from tfhet import stages

    parsed = stages.parse(chain)
    if parsed and parsed[0].name == "decode":
        return example_photos.dataset(files, parsed, batch_size, repeat)
    return example.dataset(files, (32, 32, 3), parsed, batch_size, repeat)
