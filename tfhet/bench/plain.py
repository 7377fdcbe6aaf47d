"""A chain as plain TensorFlow, in the style of AWS's heterogeneous-cluster example: what tfhet's chain is held against.

For `aws-cifar` it does what that example does, in its order: TFRecord, then one map per step over single images, each
with `num_parallel_calls=AUTOTUNE`, batching last. `tf.nn.dilation2d` with a zero kernel, Addons' `gaussian_filter2d`,
Keras `Rescaling`, and a Keras `Sequential` of `RandomFlip`, `RandomRotation` and `RandomZoom`. One change: the Keras
layers are built once, outside the mapped function (built inside it, as there, they fail on TensorFlow 2.15:
"tf.function only supports singleton tf.Variables"), and called with `training=True`. Shuffling is left out on both
sides. Source: aws/amazon-sagemaker-examples, `train_dnn.py` and `train_data.py` of the TensorFlow
heterogeneous-clusters example (last at the parent of commit 60142f1a6, 2023-07-17; reading TFRecords from its earlier
version).

Other chains of the same steps are written in the same style, and the chain `imagenet-train` by `plain_photos`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tfhet.bench import plain_photos
from tfhet.errors import UsageError

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.stages import Stage

AGAINST = "the example as written"
STEPS = ("dilate", "gaussian_blur", "rescale", "random_flip", "random_rotation", "random_zoom")
"""Stages that this style knows how to write."""


def knows(stages: Sequence[Any]) -> bool:
    """Whether the chain can be written in this style."""
    names = tuple(getattr(stage, "name", "") for stage in stages)
    return names == plain_photos.STEPS or all(name in STEPS for name in names)


def dataset(
    files: Sequence[str],
    shape: Sequence[int],
    stages: Sequence[Stage],
    batch_size: int,
    repeat: int = 1,
    shuffle: int = 0,
) -> tf.data.Dataset:
    """(image float32 [batch, height, width, channels], label int64 [batch]) from TFRecord `files` of raw uint8 images
    of `shape`, or of JPEG images where the chain begins with `decode`.

    `stages` are those of a tfhet chain: their configuration is used, none of their code. `repeat` reads the files so
    often, -1 without end; `shuffle` is the size of a buffer of examples before it, 0: none. Raises UsageError for a
    stage outside STEPS, and when tensorflow_addons is missing for a chain that blurs.
    """
    if stages and stages[0].name == "decode":
        return plain_photos.dataset(files, stages, batch_size, repeat)
    import tensorflow as tf

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, features)
        return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), shape), example["label"]

    made = tf.data.TFRecordDataset(list(files)).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    made = (made.shuffle(shuffle) if shuffle else made).repeat(repeat)
    for step in _steps(stages):
        made = made.map(_on_image(step), num_parallel_calls=tf.data.AUTOTUNE)
    return made.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def _on_image(step: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda image, label: (step(image), label)


def _steps(stages: Sequence[Stage]) -> list[Callable[[Any], Any]]:
    """One function per map; neighbouring random stages share a Keras Sequential, as they do in the example."""
    import tensorflow as tf

    steps: list[Callable[[Any], Any]] = []
    layers: list[Any] = []

    def close_sequential() -> None:
        if layers:
            steps.append(_augment(tf.keras.Sequential(list(layers))))
            layers.clear()

    for stage in stages:
        if stage.name not in STEPS:
            raise UsageError(f"the example has no step like {stage.name!r}; it knows {', '.join(STEPS)}")
        config = stage.config()
        if stage.name.startswith("random_"):
            layers.append(_layer(stage.name, config))
            continue
        close_sequential()
        steps.append({"dilate": _dilate, "gaussian_blur": _blur, "rescale": _rescale}[stage.name](config))
    close_sequential()
    return steps


def _augment(sequential: Any) -> Callable[[Any], Any]:
    return lambda image: sequential(image, training=True)


def _layer(name: str, config: dict[str, Any]) -> Any:
    import tensorflow as tf

    if name == "random_flip":
        mode = "_and_".join(way for way in ("horizontal", "vertical") if config[way])
        return tf.keras.layers.RandomFlip(mode) if mode else tf.keras.layers.Identity()
    if name == "random_rotation":
        return tf.keras.layers.RandomRotation(config["factor"])
    return tf.keras.layers.RandomZoom(config["factor"])


def _dilate(config: dict[str, Any]) -> Callable[[Any], Any]:
    import tensorflow as tf

    def dilate(image: tf.Tensor) -> tf.Tensor:
        kernel = tf.zeros([config["size"], config["size"], image.shape[-1]], tf.uint8)
        images = tf.expand_dims(image, 0)
        images = tf.nn.dilation2d(
            images, kernel, strides=[1, 1, 1, 1], dilations=[1, 1, 1, 1], padding="SAME", data_format="NHWC"
        )
        return tf.squeeze(images, 0)

    return dilate


def _blur(config: dict[str, Any]) -> Callable[[Any], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Addons says at import that it has ended
        try:
            import tensorflow_addons as tfa
        except ImportError as error:
            message = f"the example blurs with TensorFlow Addons ({error}): pip install 'tfhet[addons]'"
            raise UsageError(message) from None

    size = (config["size"], config["size"])

    def blur(image: tf.Tensor) -> tf.Tensor:
        return tfa.image.gaussian_filter2d(image, filter_shape=size, sigma=config["sigma"], padding=config["padding"])

    return blur


def _rescale(config: dict[str, Any]) -> Callable[[Any], Any]:
    import tensorflow as tf

    layer: Callable[[Any], Any] = tf.keras.layers.Rescaling(config["scale"], offset=config["offset"])
    return layer
