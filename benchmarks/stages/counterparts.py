"""Counterparts of stages in TensorFlow, Keras and Addons: the operations to compare with, as their users write them.

A counterpart works on a batch where the library does, and on single images where it does not. It gives the dtype that
the stage gives: what a library leaves as float32 is rounded back to uint8.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers.job import MEAN, STD

if TYPE_CHECKING:
    import tensorflow as tf

Work = Callable[[Any], Any]


@dataclass(frozen=True)
class Counterpart:
    """One operation of another library."""

    stage: str
    """As `tfhet.stages.parse` takes it; {height} and {width} stand for the images'."""
    words: str
    """Name of the operation in its library."""
    make: Callable[[int, int], Work]
    """(height, width of the images) -> the operation on images, traced once."""
    batched: bool = True
    """Whether it takes a batch; else one image."""
    dtypes: tuple[str, ...] = ("uint8", "float32")
    """Dtypes of images that both take; float32 is from 0 to 1."""


def _layer(make: Callable[[Any, int, int], Any]) -> Callable[[int, int], Work]:
    """A Keras layer, augmenting."""

    def made(height: int, width: int) -> Work:
        import tensorflow as tf

        layer = make(tf.keras.layers, height, width)
        try:
            layer(tf.zeros([1, height, width, 3]), training=True)
        except TypeError:
            return lambda images: layer(images)
        return lambda images: layer(images, training=True)

    return made


def _of_tensorflow(work: Callable[[Any, Any, int, int], Any]) -> Callable[[int, int], Work]:
    """(tf, images, height, width) -> images."""

    def made(height: int, width: int) -> Work:
        import tensorflow as tf

        return lambda images: work(tf, images, height, width)

    return made


def _of_addons(work: Callable[[Any, Any], Any]) -> Callable[[int, int], Work]:
    """(tensorflow_addons.image, images) -> images. Raises ImportError when Addons is not there."""

    def made(height: int, width: int) -> Work:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Addons says at import that it has ended
            from tensorflow_addons import image as addons

        return lambda images: work(addons, images)

    return made


def as_stage(result: tf.Tensor, dtype: str) -> tf.Tensor:
    """The dtype that the stage gives."""
    import tensorflow as tf

    if result.dtype.name == dtype:
        return result
    return tf.saturate_cast(tf.round(result) if dtype == "uint8" else result, dtype)


def _crop(tf: Any, image: Any, height: int, width: int) -> Any:
    """A random resized crop of one image to its own size."""
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros([0, 0, 4]),
        min_object_covered=0.0,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.image.resize(tf.slice(image, begin, extent), [height, width])


def _jitter(tf: Any, image: Any, height: int, width: int) -> Any:
    image = tf.image.convert_image_dtype(image, tf.float32) if image.dtype == tf.uint8 else image
    image = image * tf.random.uniform([], 0.6, 1.4)
    mean = tf.reduce_mean(tf.image.rgb_to_grayscale(image))
    image = mean + tf.random.uniform([], 0.6, 1.4) * (image - mean)
    grey = tf.image.rgb_to_grayscale(image)
    image = grey + tf.random.uniform([], 0.6, 1.4) * (image - grey)
    return tf.clip_by_value(image, 0.0, 1.0) * 255.0


def _random_levels(tf: Any, image: Any, height: int, width: int) -> Any:
    return tf.image.random_brightness(image, 0.2)


def _morphology(name: str) -> Callable[[Any, Any, int, int], Any]:
    def work(tf: Any, images: Any, height: int, width: int) -> Any:
        kernel = tf.zeros([3, 3, images.shape[3]], images.dtype)
        return getattr(tf.nn, name)(images, kernel, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])

    return work


COUNTERPARTS: tuple[Counterpart, ...] = (
    Counterpart("dilate(3)", "tf.nn.dilation2d", _of_tensorflow(_morphology("dilation2d"))),
    Counterpart("erode(3)", "tf.nn.erosion2d", _of_tensorflow(_morphology("erosion2d")), dtypes=("float32",)),
    Counterpart(
        "gaussian_blur(11, 0.8)",
        "tfa.image.gaussian_filter2d",
        _of_addons(lambda addons, images: addons.gaussian_filter2d(images, (11, 11), 0.8)),
    ),
    Counterpart("sharpen()", "tfa.image.sharpness", _of_addons(lambda addons, images: addons.sharpness(images, 1.5))),
    Counterpart("random_flip()", "Keras RandomFlip", _layer(lambda keras, h, w: keras.RandomFlip("horizontal"))),
    Counterpart("random_rotation(0.1)", "Keras RandomRotation", _layer(lambda keras, h, w: keras.RandomRotation(0.1))),
    Counterpart("random_zoom(0.1)", "Keras RandomZoom", _layer(lambda keras, h, w: keras.RandomZoom(0.1))),
    Counterpart(
        "random_translation()",
        "Keras RandomTranslation",
        _layer(lambda keras, h, w: keras.RandomTranslation(0.1, 0.1)),
    ),
    Counterpart(
        "random_shear()",
        "tfa.image.transform",
        _of_addons(
            lambda addons, images: addons.transform(images, [1.0, 0.1, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], "bilinear")
        ),
    ),
    Counterpart(
        "affine(degrees=10.0)",
        "tfa.image.rotate",
        _of_addons(lambda addons, images: addons.rotate(images, 0.1745, "bilinear", "reflect")),
    ),
    Counterpart(
        "random_affine()",
        "tfa.image.transform",
        _of_addons(
            lambda addons, images: addons.transform(images, [1.0, 0.1, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], "bilinear")
        ),
    ),
    Counterpart("random_brightness()", "tf.image.random_brightness", _of_tensorflow(_random_levels), batched=False),
    Counterpart(
        "random_contrast()",
        "tf.image.random_contrast",
        _of_tensorflow(lambda tf, image, h, w: tf.image.random_contrast(image, 0.8, 1.2)),
        batched=False,
    ),
    Counterpart(
        "random_saturation()",
        "tf.image.random_saturation",
        _of_tensorflow(lambda tf, image, h, w: tf.image.random_saturation(image, 0.6, 1.4)),
        batched=False,
    ),
    Counterpart(
        "random_hue()",
        "tf.image.random_hue",
        _of_tensorflow(lambda tf, image, h, w: tf.image.random_hue(image, 0.1)),
        batched=False,
    ),
    Counterpart(
        "color_jitter()", "its formulas in tf.image", _of_tensorflow(_jitter), batched=False, dtypes=("uint8",)
    ),
    Counterpart(
        "grayscale()",
        "tf.image.rgb_to_grayscale",
        _of_tensorflow(lambda tf, images, h, w: tf.image.rgb_to_grayscale(images)),
    ),
    Counterpart("equalize()", "tfa.image.equalize", _of_addons(lambda addons, images: addons.equalize(images))),
    Counterpart(
        "gamma(1.5)",
        "tf.image.adjust_gamma",
        _of_tensorflow(lambda tf, images, h, w: tf.image.adjust_gamma(images, 1.5)),
    ),
    Counterpart(
        "gaussian_noise()",
        "Keras GaussianNoise",
        _layer(lambda keras, h, w: keras.GaussianNoise(0.1)),
        dtypes=("float32",),
    ),
    Counterpart(
        "cutout()",
        "tfa.image.random_cutout",
        _of_addons(lambda addons, images: addons.random_cutout(images, (16, 16))),
    ),
    Counterpart(
        "random_erasing()",
        "tfa.image.random_cutout",
        _of_addons(lambda addons, images: addons.random_cutout(images, (16, 16))),
    ),
    Counterpart(
        "rescale()", "Keras Rescaling", _layer(lambda keras, h, w: keras.Rescaling(1 / 255)), dtypes=("uint8",)
    ),
    Counterpart(
        f"normalize({MEAN}, {STD})",
        "Keras Normalization",
        _layer(
            lambda keras, h, w: keras.Normalization(
                mean=[255.0 * m for m in MEAN], variance=[(255.0 * s) ** 2 for s in STD]
            )
        ),
        dtypes=("uint8",),
    ),
    Counterpart(
        "cast('float32')",
        "tf.cast",
        _of_tensorflow(lambda tf, images, h, w: tf.cast(images, tf.float32)),
        dtypes=("uint8",),
    ),
    Counterpart(
        "resize({half_height}, {half_width})",
        "tf.image.resize",
        _of_tensorflow(lambda tf, images, h, w: tf.image.resize(images, [h // 2, w // 2])),
    ),
    Counterpart(
        "resize({half_height}, {half_width}, 'area')",
        "tf.image.resize, area",
        _of_tensorflow(lambda tf, images, h, w: tf.image.resize(images, [h // 2, w // 2], "area")),
    ),
    Counterpart(
        "pad(4, 4, 4, 4)",
        "tf.pad",
        _of_tensorflow(lambda tf, images, h, w: tf.pad(images, [[0, 0], [4, 4], [4, 4], [0, 0]])),
    ),
    Counterpart(
        "center_crop({half_height}, {half_width})",
        "Keras CenterCrop",
        _layer(lambda keras, h, w: keras.CenterCrop(h // 2, w // 2)),
    ),
    Counterpart(
        "random_crop({half_height}, {half_width})",
        "tf.image.random_crop",
        _of_tensorflow(lambda tf, image, h, w: tf.image.random_crop(image, [h // 2, w // 2, 3])),
        batched=False,
    ),
    Counterpart(
        "random_resized_crop({height}, {width})",
        "tf.image.sample_distorted_bounding_box and resize",
        _of_tensorflow(_crop),
        batched=False,
    ),
)
