"""tf.data and tf.image as TensorFlow's own examples write it: only the crop is decoded, one map over single images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peers.job import ANTIALIAS, LINEAR, Job, normalized
from benchmarks.peers.peer import Peer

if TYPE_CHECKING:
    import tensorflow as tf


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    def one(file: Any) -> Any:
        return finished(job, cropped(job, file))

    return running(job, one)


def running(job: Job, one: Callable[[Any], Any], whole: Callable[[Any], Any] | None = None) -> Any:
    """One map over files, batching, and with `whole` a map over batches."""
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices(list(job.files)).map(one, num_parallel_calls=job.threads)
    data = data.batch(job.batch_size)
    if whole is not None:
        data = data.map(whole, num_parallel_calls=job.threads)
    options = tf.data.Options()
    options.threading.private_threadpool_size = job.threads
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    data = data.prefetch(2).with_options(options)
    return lambda: data.as_numpy_iterator()


def cropped(job: Job, file: tf.Tensor) -> tf.Tensor:
    """float32 [size, size, 3], 0 to 255: cut, resized, and mirrored unless the chain is `imagenet-eval`."""
    import tensorflow as tf

    contents = tf.io.read_file(file)
    antialias = job.way == ANTIALIAS
    if job.chain == "imagenet-eval":
        # Only the middle is decoded, as TensorFlow's own ResNet for TPUs does it: to whole pixels what torchvision
        # would cut from the resized image, whose size it rounds down.
        shape = tf.io.extract_jpeg_shape(contents)[:2]
        size = shape * job.shorter // tf.reduce_min(shape)
        scale = tf.cast(shape, tf.float32) / tf.cast(size, tf.float32)
        begin = tf.cast(tf.round(tf.cast((size - job.size) // 2, tf.float32) * scale), tf.int32)
        extent = tf.cast(tf.round(float(job.size) * scale), tf.int32)
        image = tf.io.decode_and_crop_jpeg(contents, tf.concat([begin, extent], 0), channels=3)
        image = tf.image.resize(image, [job.size, job.size], antialias=antialias)
    else:
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(contents),
            tf.zeros([0, 0, 4]),
            min_object_covered=0.0,
            aspect_ratio_range=job.ratio,
            area_range=job.scale,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        box = tf.stack([begin[0], begin[1], extent[0], extent[1]])
        image = tf.io.decode_and_crop_jpeg(contents, box, channels=3)
        image = tf.image.resize(image, [job.size, job.size], antialias=antialias)
        if job.flip == 0.5:
            image = tf.image.random_flip_left_right(image)
        elif job.flip == 1.0:
            image = tf.image.flip_left_right(image)
    image.set_shape([job.size, job.size, 3])
    return image


def finished(job: Job, image: tf.Tensor) -> tf.Tensor:
    """Jittered if the chain says so, and normalized or rounded. image: float32, 0 to 255."""
    import tensorflow as tf

    if job.chain == "imagenet-jitter":
        around = (1.0 - job.jitter, 1.0 + job.jitter)
        image = image * tf.random.uniform([], *around)
        # As tfhet does it; tf.image.adjust_saturation goes by HSV, which makes another picture.
        mean = tf.reduce_mean(tf.image.rgb_to_grayscale(image))
        image = mean + tf.random.uniform([], *around) * (image - mean)
        grey = tf.image.rgb_to_grayscale(image)
        image = grey + tf.random.uniform([], *around) * (image - grey)
        image = tf.clip_by_value(image, 0.0, 255.0)
    if job.dtype == "uint8":
        return tf.cast(tf.round(image), tf.uint8)
    scale, offset = normalized(job)
    return image * scale + offset


PEER = Peer(
    name="tf-image",
    words="tf.data with tf.image",
    imports=("tensorflow",),
    requires=(),
    does={
        "imagenet-train": (LINEAR, ANTIALIAS),
        "imagenet-jitter": (LINEAR, ANTIALIAS),
        "imagenet-eval": (LINEAR, ANTIALIAS),
    },
    build=_build,
    differs="the middle of imagenet-eval begins at a whole pixel of the source",
)
