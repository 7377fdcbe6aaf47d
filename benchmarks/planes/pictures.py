"""The pictures of `train.py`, as users of each data plane write them.

They are made by a tf.data map of TensorFlow's operations and tfhet's stages, by a function that gives batches (the
feed), or by map_batches (Ray).
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter  # type: ignore[import-untyped]

PICTURES = 4
"""Number of different pictures."""


@dataclass(frozen=True)
class Chain:
    """Processing of pictures, uint8 [size, size, 3], in batches of `batch_size`."""

    batch_size: int
    size: int
    blurs: int
    """Gaussian blurs of 11 x 11; 0: pictures are turned around and inverted, which costs about as much as a copy."""
    batches_of_a_block: int
    """Number of batches that one task of Ray makes, which are to be some MB."""

    @property
    def batch_bytes(self) -> int:
        return self.batch_size * self.size**2 * 3

    @property
    def block(self) -> int:
        """Number of pictures that a task of Ray makes."""
        return self.batch_size * self.batches_of_a_block


CHAINS = {"blurs": Chain(128, 64, 10, 8), "small": Chain(8, 64, 0, 64), "large": Chain(16, 256, 0, 4)}


@functools.cache
def pictures(size: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (PICTURES, size, size, 3), np.uint8)


def prepared(ids: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """Pictures of some ids, uint8 [ids, size, size, 3], in NumPy and SciPy."""
    chain = CHAINS[name]
    images = pictures(chain.size)[ids % PICTURES]
    if not chain.blurs:
        return {"image": 255 - images[:, :, ::-1], "id": ids}
    blurred = images.astype(np.float32)
    for _ in range(chain.blurs):
        blurred = gaussian_filter(blurred, (0, 1, 1, 0), radius=(0, 5, 5, 0))
    return {"image": blurred.astype(np.uint8), "id": ids}


def dataset(name: str, blocks: int) -> Any:
    """The same for tf.data service: TensorFlow's operations, and tfhet's blur."""
    import tensorflow as tf

    from tfhet import stages

    chain = CHAINS[name]
    (blur,) = stages.parse("gaussian_blur(11, 1, padding='SYMMETRIC')")

    def prepare(ids: Any) -> dict[str, Any]:
        images = tf.gather(tf.constant(pictures(chain.size)), ids % PICTURES)
        if not chain.blurs:
            return {"image": 255 - tf.reverse(images, [2]), "id": ids}
        blurred = tf.cast(images, tf.float32)
        for _ in range(chain.blurs):
            blurred = blur.apply(blurred, {})
        return {"image": tf.cast(blurred, tf.uint8), "id": ids}

    def batches(block: Any) -> Any:
        of_block = tf.data.Dataset.range(block * chain.block, (block + 1) * chain.block)
        return of_block.batch(chain.batch_size, drop_remainder=True)

    # A worker asks the dispatcher for each element of the first data set, as for each file of a real one.
    ids = tf.data.Dataset.range(blocks).flat_map(batches)
    return ids.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def make_batches(shard: Any, name: str, blocks: int) -> Iterator[dict[str, np.ndarray]]:
    """The same for the feed: the batches of a shard."""
    size = CHAINS[name].batch_size
    for index in range(shard.index, blocks * CHAINS[name].batches_of_a_block, shard.count):
        yield prepared(np.arange(index * size, (index + 1) * size), name)


def of_block(block: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The pictures of a block, made batch by batch."""
    rows = CHAINS[name].batch_size
    batches = [prepared(block["id"][begin : begin + rows], name) for begin in range(0, len(block["id"]), rows)]
    return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}


def make_blocks(shard: Any, name: str, blocks: int) -> Any:
    """The same as a Ray data set, a block in each task. Without a batch size, Ray 2.60 runs the read and the map in one
    task; apart, each keeps a CPU from the other."""
    import ray

    ids = ray.data.range(blocks * CHAINS[name].block, override_num_blocks=blocks)
    return ids.map_batches(of_block, fn_kwargs={"name": name}, batch_size=None)


def check(batch: dict[str, np.ndarray], name: str) -> None:
    """Raises AssertionError where a batch is none of the chain. Blurs may be one grey level apart."""
    wanted = prepared(np.asarray(batch["id"]), name)["image"]
    apart = np.abs(wanted.astype(np.int16) - np.asarray(batch["image"]))
    assert batch["image"].shape == wanted.shape and apart.max() <= (1 if CHAINS[name].blurs else 0), apart.max()


def batch_cpu_s(name: str, form: str, cpu: int = 0) -> float:
    """CPU seconds of this process for making a batch in NumPy and SciPy, or in TensorFlow ("tf"), on one of its CPUs,
    as a host of one CPU: more threads are dearer."""
    os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[cpu]])
    size, count = CHAINS[name].batch_size, 30 if CHAINS[name].blurs else 300
    batches = iter(dataset(name, count)) if form == "tf" else None
    for number in range(count + 3):
        if number == 3:
            began_s = time.process_time()
        if batches is None:
            prepared(np.arange(number * size, (number + 1) * size), name)
        else:
            next(batches)
    return (time.process_time() - began_s) / count


if __name__ == "__main__":
    print(json.dumps(batch_cpu_s(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
