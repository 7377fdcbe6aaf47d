"""The chain `imagenet-train` written as AWS's example writes its own: one map per step over single images, batch last.

TensorFlow's operations for photos take the place of those for small images: only the crop is decoded
(`tf.io.decode_and_crop_jpeg` behind `sample_distorted_bounding_box`), then resize, flip and normalize.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfhet.errors import UsageError

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.stages import Stage

STEPS = ("decode", "random_resized_crop", "random_flip", "normalize")
"""The chain, stage by stage."""


def dataset(files: Sequence[str], stages: Sequence[Stage], batch_size: int, repeat: int = 1) -> tf.data.Dataset:
    """(image float32 [batch, height, width, 3], label int64 [batch]) from TFRecord `files` of JPEG images.

    `stages` are those of `imagenet-train`: their configuration is used, none of their code. `repeat` reads the files so
    often, -1 without end. Raises UsageError for another chain.
    """
    import tensorflow as tf

    if tuple(stage.name for stage in stages) != STEPS:
        raise UsageError(f"written in the example's style is {'; '.join(STEPS)} and no other chain of photos")
    crop, flip, normal = (stage.config() for stage in stages[1:])
    mean, deviation = (tf.constant(normal[name], tf.float32) * 255.0 for name in ("mean", "std"))

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, features)
        return example["image"], example["label"]

    steps = (
        lambda image: _cropped(image, crop),
        lambda image: tf.image.random_flip_left_right(image) if flip["horizontal"] else image,
        lambda image: (image - mean) / deviation,
    )
    side_by_side = tf.data.AUTOTUNE
    made = tf.data.TFRecordDataset(list(files)).map(parse, num_parallel_calls=side_by_side).repeat(repeat)
    for step in steps:
        made = made.map(lambda image, label, step=step: (step(image), label), num_parallel_calls=side_by_side)
    return made.batch(batch_size).prefetch(side_by_side)


def _cropped(contents: tf.Tensor, crop: Mapping[str, Any]) -> tf.Tensor:
    import tensorflow as tf

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
