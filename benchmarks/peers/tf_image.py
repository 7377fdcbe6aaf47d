"""tf.data and tf.image as TensorFlow's examples write it: one map over single images, and only the crop is decoded.

The centre crop of `imagenet-eval` begins at a whole pixel of the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import ANTIALIAS, LINEAR, PHOTO_CHAINS, Job, Peer, Run

if TYPE_CHECKING:
    import tensorflow as tf


def _build(job: Job) -> Run:
    import tensorflow as tf

    images = tf.data.Dataset.from_tensor_slices(list(job.files))
    images = images.map(lambda file: image_of(job, file), num_parallel_calls=job.threads).batch(job.batch_size)
    return on_threads(images.prefetch(2), job.threads).as_numpy_iterator


def on_threads(dataset: tf.data.Dataset, threads: int) -> tf.data.Dataset:
    """Returns the data set on `threads` threads."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    return dataset.with_options(options)


def image_of(job: Job, file: tf.Tensor) -> Any:
    """Returns the image of one file after the job's chain, [size, size, 3]."""
    import tensorflow as tf

    contents = tf.io.read_file(file)
    shape = tf.io.extract_jpeg_shape(contents)
    if job.chain == "imagenet-eval":  # as TensorFlow's ResNet for TPUs does it
        resized = shape[:2] * job.shorter // tf.reduce_min(shape[:2])
        scale = tf.cast(shape[:2], tf.float32) / tf.cast(resized, tf.float32)
        begin = tf.cast(tf.round(tf.cast((resized - job.size) // 2, tf.float32) * scale), tf.int32)
        extent = tf.cast(tf.round(float(job.size) * scale), tf.int32)
    else:
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            shape,
            tf.zeros([0, 0, 4]),
            min_object_covered=0.0,
            aspect_ratio_range=job.ratio,
            area_range=job.scale,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
    image = tf.io.decode_and_crop_jpeg(contents, tf.concat([begin[:2], extent[:2]], 0), channels=3)
    image = tf.image.resize(image, [job.size, job.size], antialias=job.way == ANTIALIAS)
    if job.chain != "imagenet-eval":
        image = tf.cond(tf.random.uniform([]) < job.flip, lambda: tf.reverse(image, [1]), lambda: image)
    image.set_shape([job.size, job.size, 3])
    if job.chain == "imagenet-jitter":
        factors = tf.unstack(tf.random.uniform([3], 1.0 - job.jitter, 1.0 + job.jitter))
        image = image * factors[0]
        mean = tf.reduce_mean(tf.image.rgb_to_grayscale(image))
        image = mean + factors[1] * (image - mean)
        grey = tf.image.rgb_to_grayscale(image)  # tf.image.adjust_saturation uses HSV, which makes another image
        image = tf.clip_by_value(grey + factors[2] * (image - grey), 0.0, 255.0)
    if job.dtype == "uint8":
        return tf.cast(tf.round(image), tf.uint8)
    scale, offset = job.normalization
    return image * scale + offset


PEER = Peer(
    name="tf-image",
    words="tf.data with tf.image",
    imports=("tensorflow",),
    requires=(),
    does=dict.fromkeys(PHOTO_CHAINS, (LINEAR, ANTIALIAS)),
    build=_build,
)
