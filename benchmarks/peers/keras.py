"""Keras: the layers of KerasCV on tf.data; the random crop in front of RandAugment as tf.image does it.

RandAugment takes single images, which cost less than a batch that it maps over image by image: 10 ms instead of 14. As
it is configured it draws for each image, and `auto_vectorize=True` ends in an InvalidArgumentError ("Tried to stack
elements of an empty list") with KerasCV 0.6.4 and 0.9.0 alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.peers.job import LINEAR, Job, normalized
from benchmarks.peers.peer import Peer
from benchmarks.peers.tf_image import cropped, running


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    import keras_cv
    import tensorflow as tf

    scale, offset = normalized(job)
    levels = (0.0, 255.0)
    if job.chain == "randaugment-224":
        layer = keras_cv.layers.RandAugment(levels, augmentations_per_image=2, magnitude=9 / 30, seed=job.seed)
    else:
        layer = tf.keras.Sequential(
            [
                keras_cv.layers.RandomBrightness(job.jitter, levels),
                keras_cv.layers.RandomContrast(levels, job.jitter),
                keras_cv.layers.RandomSaturation(((1.0 - job.jitter) / 2.0, (1.0 + job.jitter) / 2.0)),
            ]
        )

    def augmented(images: tf.Tensor) -> tf.Tensor:
        images = layer(images, training=True)
        if job.dtype == "uint8":
            return tf.cast(tf.round(images), tf.uint8)
        return images * scale + offset

    if job.chain == "randaugment-224":
        return running(job, lambda file: augmented(cropped(job, file)))
    return running(job, lambda file: cropped(job, file), augmented)


PEER = Peer(
    name="keras",
    words="Keras layers (KerasCV)",
    imports=("keras_cv",),
    # Without dependencies: it runs with the TensorFlow 2.15 and Keras 2.15 that are there.
    requires=(
        "keras-cv==0.9.0",
        "keras-core==0.1.7",
        "namex==0.1.0",
        "dm-tree==0.1.10",
        "regex",
        "etils",
        "kagglehub",
        "toml",
        "tensorflow-datasets==4.9.10",
    ),
    does={"randaugment-224": (LINEAR,), "imagenet-jitter": (LINEAR,)},
    build=_build,
    dependencies=False,
    differs="RandAugment without rotation and posterize, as KerasCV has it; jitter changes the saturation of HSV",
)
