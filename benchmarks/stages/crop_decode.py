"""The floor of a chain that crops photos: decoding the crops and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet.bench import Case
from tfhet.bench.chain import PHOTO_PASSES, Course, dataset_case

if TYPE_CHECKING:
    import tensorflow as tf

CROP = "crop decode"


def crop_cases(course: Course) -> list[Case]:
    """The case, for a chain with `random_resized_crop` on photos."""
    if course.small or "random_resized_crop" not in _names(course):
        return []
    return [dataset_case(course, CROP, PHOTO_PASSES, lambda: _crops(course).repeat(PHOTO_PASSES), lambda made: made)]


def _names(course: Course) -> list[str]:
    return [getattr(stage, "name", "") for stage in course.pipeline.stages]


def _crops(course: Course) -> tf.data.Dataset:
    """The crops, drawn beforehand, from memory, decoded by `tf.io.decode_and_crop_jpeg` in their own sizes: what the
    whole chain would cost if only decoding did."""
    import tensorflow as tf

    from tfhet.placement import one_epoch
    from tfhet.stages import RandomResizedCrop, randomness

    pipeline = course.pipeline
    at = _names(course).index("random_resized_crop")
    crop = pipeline.stages[at]
    assert isinstance(crop, RandomResizedCrop)
    spec = pipeline.input
    for stage in pipeline.stages[:at]:
        spec = stage.spec(spec)  # type: ignore[union-attr]
    contents, boxes = [], []
    for element in one_epoch(pipeline.with_stages(())):
        sizes = tf.map_fn(tf.io.extract_jpeg_shape, element["image"], fn_output_signature=tf.int32)[:, :2]
        drawn = crop.parameters(randomness.keys(pipeline.seed, crop.name, at, 0, element["id"]), spec)
        contents.append(element["image"])
        boxes.append(tf.cast(crop.windows(drawn, sizes), tf.int32))

    def one(content: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
        # Its shape alone goes on: a batch of many sizes would cost more than the decoding.
        return tf.shape(tf.io.decode_and_crop_jpeg(content, box, channels=3))

    parallel_calls = tf.data.AUTOTUNE if course.threads is None else course.threads
    made = tf.data.Dataset.from_tensor_slices((tf.concat(contents, 0), tf.concat(boxes, 0)))
    return made.map(one, num_parallel_calls=parallel_calls).batch(pipeline.batch_size)
