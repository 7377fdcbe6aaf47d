"""A chain in plain TensorFlow, as AWS's heterogeneous cluster example writes it: the reference of tfhet's chains.

`aws-cifar` does what the example does, in its order: TFRecords, then one map per step over single images, each with
`num_parallel_calls=AUTOTUNE`, and batching last. The steps are `tf.nn.dilation2d` with a zero kernel, Addons'
`gaussian_filter2d`, Keras `Rescaling`, and a Keras `Sequential` of `RandomFlip`, `RandomRotation` and `RandomZoom`. One
change: the Keras layers are built once, outside the mapped function, because TensorFlow 2.15 fails if they are built
inside it as in the example ("tf.function only supports singleton tf.Variables"). They are called with `training=True`.
Source: aws/amazon-sagemaker-examples, `train_dnn.py` and `train_data.py` of the TensorFlow heterogeneous-clusters
example (last at the parent of commit 60142f1a6, 2023-07-17; reading TFRecords from its earlier version).

Other chains of the same steps are written in the same style, and so is `imagenet-train` with TensorFlow's operations
for photos: only the crop is decoded (`tf.io.decode_and_crop_jpeg` after `sample_distorted_bounding_box`).
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tfhet.errors import UsageError

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.stages import Stage

AGAINST = "the example as written"
STEPS = ("dilate", "gaussian_blur", "rescale", "random_flip", "random_rotation", "random_zoom")
"""Stages for small images that this style knows."""
PHOTO_STEPS = ("decode", "random_resized_crop", "random_flip", "normalize")
"""The only chain of photos that this style knows."""


def knows(stages: Sequence[Any]) -> bool:
    """Returns whether the chain can be written in this style."""
    names = tuple(getattr(stage, "name", "") for stage in stages)
    return names == PHOTO_STEPS or all(name in STEPS for name in names)


def missing(stages: Sequence[Any]) -> str:
    """Returns why a chain that can be written in this style cannot run here, or ""."""
    blurs = any(getattr(stage, "name", "") == "gaussian_blur" for stage in stages)
    is_there = not blurs or importlib.util.find_spec("tensorflow_addons")
    return "" if is_there else "it blurs with TensorFlow Addons, which is not installed: pip install 'tfhet[addons]'"


def dataset(
    files: Sequence[str],
    shape: Sequence[int],
    stages: Sequence[Stage],
    batch_size: int,
    repeat: int = 1,
    shuffle: int = 0,
) -> tf.data.Dataset:
    """Returns batches of a chain's images.

    Args:
        files: TFRecord files of raw uint8 images, or of JPEG images if the chain begins with `decode`.
        shape: height, width and channels of the raw images.
        stages: the stages of a tfhet chain. Only their configuration is used.
        batch_size: images per batch.
        repeat: passes over the files; -1 without end.
        shuffle: size of a buffer of examples before the passes; 0 for none.

    Returns:
        (image float32 [batch, height, width, channels], label int64 [batch]).

    Raises:
        UsageError: for an unknown stage, and if a chain blurs and TensorFlow Addons is not installed.
    """
    import tensorflow as tf

    is_photos = bool(stages) and stages[0].name == "decode"
    steps = _photo_steps(stages) if is_photos else _steps(stages)

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, features)
        image = example["image"] if is_photos else tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), shape)
        return image, example["label"]

    made = tf.data.TFRecordDataset(list(files)).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    made = (made.shuffle(shuffle) if shuffle else made).repeat(repeat)
    for step in steps:
        made = made.map(lambda image, label, step=step: (step(image), label), num_parallel_calls=tf.data.AUTOTUNE)
    return made.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def _steps(stages: Sequence[Stage]) -> list[Callable[[Any], Any]]:
    """Returns one function per map. Consecutive random stages share a Keras Sequential, as in the example."""
    import tensorflow as tf

    steps: list[Callable[[Any], Any]] = []
    layers: list[Any] = []

    def close_sequential() -> None:
        if layers:
            sequential = tf.keras.Sequential(list(layers))
            steps.append(lambda image: sequential(image, training=True))
            layers.clear()

    for stage in stages:
        if stage.name not in STEPS:
            raise UsageError(f"the example has no step like {stage.name!r}; it knows {', '.join(STEPS)}")
        config = asdict(stage)
        if stage.name.startswith("random_"):
            layers.append(_layer(stage.name, config))
            continue
        close_sequential()
        steps.append({"dilate": _dilate, "gaussian_blur": _blur, "rescale": _rescale}[stage.name](config))
    close_sequential()
    return steps


def _layer(name: str, config: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    if name == "random_flip":
        mode = "_and_".join(way for way in ("horizontal", "vertical") if config[way])
        return tf.keras.layers.RandomFlip(mode) if mode else tf.keras.layers.Identity()
    layer = tf.keras.layers.RandomRotation if name == "random_rotation" else tf.keras.layers.RandomZoom
    return layer(config["factor"])


def _dilate(config: Mapping[str, Any]) -> Callable[[Any], Any]:
    import tensorflow as tf

    once = [1, 1, 1, 1]

    def dilate(image: tf.Tensor) -> tf.Tensor:
        kernel = tf.zeros([config["size"], config["size"], image.shape[-1]], tf.uint8)
        images = tf.nn.dilation2d(tf.expand_dims(image, 0), kernel, once, "SAME", "NHWC", dilations=once)
        return tf.squeeze(images, 0)

    return dilate


def _blur(config: Mapping[str, Any]) -> Callable[[Any], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Addons warns at import that it is no longer developed
        try:
            import tensorflow_addons as tfa
        except ImportError as error:
            message = f"the example blurs with TensorFlow Addons ({error}): pip install 'tfhet[addons]'"
            raise UsageError(message) from None

    size = (config["size"], config["size"])

    def blur(image: tf.Tensor) -> tf.Tensor:
        return tfa.image.gaussian_filter2d(image, filter_shape=size, sigma=config["sigma"], padding=config["padding"])

    return blur


def _rescale(config: Mapping[str, Any]) -> Callable[[Any], Any]:
    import tensorflow as tf

    layer: Callable[[Any], Any] = tf.keras.layers.Rescaling(config["scale"], offset=config["offset"])
    return layer


def _photo_steps(stages: Sequence[Stage]) -> list[Callable[[Any], Any]]:
    import tensorflow as tf

    if tuple(stage.name for stage in stages) != PHOTO_STEPS:
        raise UsageError(f"the only chain of photos in the example's style is {'; '.join(PHOTO_STEPS)}")
    crop, flip, normal = (asdict(stage) for stage in stages[1:])
    mean, deviation = (tf.constant(normal[name], tf.float32) * 255.0 for name in ("mean", "std"))

    def cropped(contents: tf.Tensor) -> tf.Tensor:
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(contents),
            tf.zeros([0, 0, 4]),
            min_object_covered=0.0,
            aspect_ratio_range=(crop["ratio_low"], crop["ratio_high"]),
            area_range=(crop["scale_low"], crop["scale_high"]),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        box = tf.stack([begin[0], begin[1], extent[0], extent[1]])
        image = tf.io.decode_and_crop_jpeg(contents, box, channels=3)
        image = tf.image.resize(image, [crop["height"], crop["width"]], antialias=crop["antialias"])
        image.set_shape([crop["height"], crop["width"], 3])
        return image

    return [
        cropped,
        lambda image: tf.image.random_flip_left_right(image) if flip["horizontal"] else image,
        lambda image: (image - mean) / deviation,
    ]
