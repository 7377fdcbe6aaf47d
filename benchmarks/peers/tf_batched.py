"""`aws-cifar` in stock TensorFlow on whole batches, compiled by XLA.

The dilation is a maximum over shifted images. The blur is two products with a matrix that holds the kernel and the
reflection at the edges. All geometric steps are one sampling: a gather of four neighbours, because XLA does not compile
TensorFlow's projective transform.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peers.peer import Job, Peer, Run
from benchmarks.peers.tf_image import on_threads

if TYPE_CHECKING:
    import tensorflow as tf

SIGMA, REACH = 0.8, 4
"""Sigma of the blur, and the pixels to either side that count: weights beyond are below a thousandth of a level."""


def _build(job: Job) -> Run:
    import tensorflow as tf

    images = np.load(job.files[0])
    source, side, channels = tf.constant(images), images.shape[1], images.shape[3]
    across, down = (matrix.astype(np.float32) for matrix in _blur(side, channels))

    @tf.function(autograph=False, jit_compile=True)
    def augmented(batch: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(tf.cast(_dilated(batch), tf.float32), [-1, side * channels]) @ across
        soft = tf.reshape(down @ tf.reshape(rows, [-1, side, side * channels]), batch.shape)
        return _sampled(job, soft, seed)

    def part(begin: tf.Tensor, count: int) -> tf.Tensor:
        batch = tf.ensure_shape(source[begin : begin + count], [count, *images.shape[1:]])
        return augmented(batch, tf.stack([tf.cast(begin, tf.int32), job.seed]))

    size, rest = job.batch_size, len(images) % job.batch_size
    parts = tf.data.Dataset.range(0, len(images) - rest, size)
    parts = parts.map(lambda begin: part(begin, size), num_parallel_calls=job.threads)
    if rest:  # XLA compiles once more for the size of the last batch
        last = tf.data.Dataset.from_tensors(len(images) - rest)
        parts = parts.concatenate(last.map(lambda begin: part(begin, rest)))
    return on_threads(parts.prefetch(2), job.threads).as_numpy_iterator


def _dilated(batch: tf.Tensor) -> tf.Tensor:
    """The maximum over each pixel's 3x3 neighbours, on bytes."""
    import tensorflow as tf

    tall = tf.pad(batch, [[0, 0], [1, 1], [0, 0], [0, 0]])
    tall = tf.maximum(tf.maximum(tall[:, :-2], tall[:, 1:-1]), tall[:, 2:])
    wide = tf.pad(tall, [[0, 0], [0, 0], [1, 1], [0, 0]])
    return tf.maximum(tf.maximum(wide[:, :, :-2], wide[:, :, 1:-1]), wide[:, :, 2:])


def _blur(side: int, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """The matrices for rows and for columns; the second also divides by 255."""
    kernel = np.exp(-0.5 * (np.arange(-REACH, REACH + 1) / SIGMA) ** 2)
    matrix = np.zeros((side, side))
    for row in range(side):
        for column, weight in zip(range(row - REACH, row + REACH + 1), kernel / kernel.sum(), strict=True):
            matrix[row, min(abs(column), 2 * (side - 1) - abs(column))] += weight
    return np.kron(matrix, np.eye(channels)).T, matrix / 255.0


def _sampled(job: Job, batch: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Each image rotated, zoomed and perhaps flipped, with reflection beyond the edges."""
    import tensorflow as tf

    count, side, _, channels = batch.shape
    turn, zoom, flip = tf.unstack(tf.random.stateless_uniform([3, count, 1, 1], seed))
    angle, zoom = (2.0 * turn - 1.0) * job.turns * 2.0 * math.pi, 1.0 + (2.0 * zoom - 1.0) * job.zoom
    cos, sin, middle = zoom * tf.cos(angle), zoom * tf.sin(angle), (side - 1) / 2.0
    x, y = tf.meshgrid(tf.range(side, dtype=tf.float32) - middle, tf.range(side, dtype=tf.float32) - middle)
    column = middle + tf.where(flip < job.flip, -1.0, 1.0) * (cos * x - sin * y)
    row = middle + sin * x + cos * y
    left, top = tf.floor(column), tf.floor(row)
    right_share, lower_share = (column - left)[..., None], (row - top)[..., None]
    pixels, first = tf.reshape(batch, [-1, channels]), (tf.range(count) * side * side)[:, None, None]

    def inside(index: tf.Tensor) -> tf.Tensor:
        index = tf.math.floormod(tf.cast(index, tf.int32), 2 * side)
        return tf.minimum(index, 2 * side - 1 - index)

    def line(rows: tf.Tensor) -> tf.Tensor:
        begin = first + rows * side
        near, far = tf.gather(pixels, begin + inside(left)), tf.gather(pixels, begin + inside(left + 1.0))
        return near + (far - near) * right_share

    upper = line(inside(top))
    return upper + (line(inside(top + 1.0)) - upper) * lower_share


PEER = Peer(
    name="tf-batched",
    words="TensorFlow, in batches",
    imports=("tensorflow",),
    requires=(),
    does={"aws-cifar": ("",)},
    build=_build,
)
