"""The small chain as a good hour's work with stock TensorFlow writes it: batch first, every step on whole batches, the
geometric steps as one sampling, and no operation of anybody else's.

The dilation is a maximum over shifted images, on bytes. The blur is two products with a matrix that holds the kernel,
the reflection at the edges and the scale. The sampling is TensorFlow's projective transform, or, compiled by XLA, which
does not have that one, a gather of four neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peers.job import BATCHED, XLA, Job
from benchmarks.peers.peer import Peer

if TYPE_CHECKING:
    import tensorflow as tf

SIGMA, REACH = 0.8, 4
"""Sigma of the Gaussian, and pixels to either side that count: beyond, its weights are below a thousandth of a grey
level."""


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    import tensorflow as tf

    images = np.load(job.files[0])
    side = images.shape[1]
    compiled = job.way == XLA
    sample = _gathered if compiled else _transformed
    blurred = _blur(side, images.shape[3])

    @tf.function(autograph=False, jit_compile=compiled)
    def augment(batch: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return sample(blurred(_dilated(batch)), _matrices(job, batch.shape[0], seed, side))

    # XLA compiles for one size of a batch, and once more for that of the last.
    whole = len(images) // job.batch_size * job.batch_size

    def batch(begin: tf.Tensor) -> tf.Tensor:
        part = tf.ensure_shape(source[begin : begin + job.batch_size], [job.batch_size, *images.shape[1:]])
        return augment(part, tf.stack([tf.cast(begin, tf.int32), job.seed]))

    source = tf.constant(images)
    parts = tf.data.Dataset.range(0, whole, job.batch_size).map(batch, num_parallel_calls=job.threads)
    if whole < len(images):
        rest = tf.data.Dataset.from_tensors(tf.constant(images[whole:]))
        parts = parts.concatenate(rest.map(lambda batch: augment(batch, tf.constant([whole, job.seed]))))
    options = tf.data.Options()
    options.threading.private_threadpool_size = job.threads
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    data = parts.prefetch(2).with_options(options)
    return lambda: data.as_numpy_iterator()


def _dilated(batch: tf.Tensor) -> tf.Tensor:
    """The maximum of each pixel's 3x3 neighbours, on bytes: first along columns, then along rows."""
    import tensorflow as tf

    tall = tf.pad(batch, [[0, 0], [1, 1], [0, 0], [0, 0]])
    tall = tf.maximum(tf.maximum(tall[:, :-2], tall[:, 1:-1]), tall[:, 2:])
    wide = tf.pad(tall, [[0, 0], [0, 0], [1, 1], [0, 0]])
    return tf.maximum(tf.maximum(wide[:, :, :-2], wide[:, :, 1:-1]), wide[:, :, 2:])


def _blur(side: int, channels: int) -> Callable[[tf.Tensor], tf.Tensor]:
    import tensorflow as tf

    kernel = np.exp(-0.5 * (np.arange(-REACH, REACH + 1) / SIGMA) ** 2)
    matrix = np.zeros((side, side))
    for row in range(side):
        for column, weight in zip(range(row - REACH, row + REACH + 1), kernel / kernel.sum(), strict=True):
            inside = abs(column)  # the edge pixel is the mirror
            matrix[row, min(inside, 2 * (side - 1) - inside)] += weight
    across = np.kron(matrix, np.eye(channels)).T.astype(np.float32)
    down = (matrix / 255.0).astype(np.float32)

    def blurred(batch: tf.Tensor) -> tf.Tensor:
        rows = tf.matmul(tf.reshape(tf.cast(batch, tf.float32), [-1, side * channels]), across)
        columns = tf.matmul(down, tf.reshape(rows, [-1, side, side * channels]))
        return tf.reshape(columns, [-1, side, side, channels])

    return blurred


def _matrices(job: Job, count: int, seed: tf.Tensor, side: int) -> tf.Tensor:
    """float32 [count, 6]: of each image, the input point of an output point: x, y, 1 for x, then for y."""
    import tensorflow as tf

    turn, zoom, flip = tf.unstack(tf.random.stateless_uniform([3, count], seed))
    angle = (2.0 * turn - 1.0) * job.turns * 2.0 * math.pi
    scale = 1.0 + (2.0 * zoom - 1.0) * job.zoom
    mirror = tf.where(flip < job.flip, -1.0, 1.0)
    cos, sin, middle = scale * tf.cos(angle), scale * tf.sin(angle), (side - 1) / 2.0
    xx, xy, yx, yy = mirror * cos, -mirror * sin, sin, cos
    return tf.stack([xx, xy, middle * (1.0 - xx - xy), yx, yy, middle * (1.0 - yx - yy)], 1)


def _transformed(batch: tf.Tensor, matrices: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    return tf.raw_ops.ImageProjectiveTransformV3(
        images=batch,
        transforms=tf.pad(matrices, [[0, 0], [0, 2]]),
        output_shape=batch.shape[1:3],
        interpolation="BILINEAR",
        fill_mode="REFLECT",
        fill_value=0.0,
    )


def _gathered(batch: tf.Tensor, matrices: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    count, side, _, channels = batch.shape
    x, y = tf.meshgrid(tf.range(side, dtype=tf.float32), tf.range(side, dtype=tf.float32))
    xx, xy, x0, yx, yy, y0 = (each[:, None, None] for each in tf.unstack(matrices, axis=1))
    column, row = xx * x + xy * y + x0, yx * x + yy * y + y0
    left, top = tf.floor(column), tf.floor(row)
    right_share, lower_share = (column - left)[..., None], (row - top)[..., None]
    pixels, first = tf.reshape(batch, [-1, channels]), (tf.range(count) * side * side)[:, None, None]

    def inside(index: tf.Tensor) -> tf.Tensor:
        index = tf.math.floormod(tf.cast(index, tf.int32), 2 * side)
        return tf.minimum(index, 2 * side - 1 - index)

    lefts, rights = inside(left), inside(left + 1.0)

    def line(rows: tf.Tensor) -> tf.Tensor:
        begin = first + rows * side
        near, far = tf.gather(pixels, begin + lefts), tf.gather(pixels, begin + rights)
        return near + (far - near) * right_share

    upper = line(inside(top))
    return upper + (line(inside(top + 1.0)) - upper) * lower_share


PEER = Peer(
    name="tf-batched",
    words="TensorFlow, in batches",
    imports=("tensorflow",),
    requires=(),
    does={"aws-cifar": (BATCHED, XLA)},
    build=_build,
)
