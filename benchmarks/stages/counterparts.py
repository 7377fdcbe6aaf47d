"""Counterparts of stages in TensorFlow, Keras and Addons, as users of these libraries write them.

A counterpart works on a batch if its library does, else on single images. Its result is converted to the stage's dtype.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import MEAN, STD

if TYPE_CHECKING:
    import tensorflow as tf

Work = Callable[[Any], Any]
Make = Callable[[int, int], Work]
"""(height, width of the images) -> the operation on images. Raises ImportError if its library is missing."""
BOTH, LEVELS, FLOATS = ("uint8", "float32"), ("uint8",), ("float32",)
"""Dtypes of images that the stage and its counterpart take; float32 is from 0 to 1."""


@dataclass(frozen=True)
class Counterpart:
    stage: str
    """As `tfhet.stages.parse` takes it; {h} and {w} stand for height and width, {h2} and {w2} for half of them."""
    words: str
    """Name of the operation in its library."""
    make: Make
    dtypes: tuple[str, ...] = BOTH
    is_batched: bool = True


def as_stage(result: tf.Tensor, dtype: str) -> tf.Tensor:
    """Returns the result in the stage's dtype: libraries leave levels as float32."""
    import tensorflow as tf

    if result.dtype.name == dtype:
        return result
    return tf.saturate_cast(tf.round(result) if dtype == "uint8" else result, dtype)


def _keras(name: str, *arguments: Any, **options: Any) -> Make:
    """A Keras layer in training mode."""

    def make(height: int, width: int) -> Work:
        import tensorflow as tf

        layer = getattr(tf.keras.layers, name)(*arguments, **options)
        try:
            layer(tf.zeros([1, height, width, 3]), training=True)
        except TypeError:
            return lambda images: layer(images)
        return lambda images: layer(images, training=True)

    return make


def _stock(work: Callable[[Any, Any], Any]) -> Make:
    """(tensorflow, images) -> images."""

    def make(height: int, width: int) -> Work:
        import tensorflow as tf

        return lambda images: work(tf, images)

    return make


def _half(work: Callable[[Any, Any, int, int], Any]) -> Make:
    """(tensorflow, images, half the height, half the width) -> images."""
    return lambda height, width: _stock(lambda tf, images: work(tf, images, height // 2, width // 2))(height, width)


def _addons(work: Callable[[Any, Any], Any]) -> Make:
    """(tensorflow_addons.image, images) -> images."""

    def make(height: int, width: int) -> Work:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Addons announces its end of life at import
            from tensorflow_addons import image as addons

        return lambda images: work(addons, images)

    return make


def _morphology(name: str) -> Make:
    once = [1, 1, 1, 1]
    return _stock(
        lambda tf, images: getattr(tf.nn, name)(
            images, tf.zeros([3, 3, images.shape[3]], images.dtype), once, "SAME", "NHWC", once
        )
    )


def _crop(tf: Any, image: Any) -> Any:
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
    return tf.image.resize(tf.slice(image, begin, extent), image.shape[:2])


def _jitter(tf: Any, image: Any) -> Any:
    image = tf.image.convert_image_dtype(image, tf.float32) * tf.random.uniform([], 0.6, 1.4)
    mean = tf.reduce_mean(tf.image.rgb_to_grayscale(image))
    image = mean + tf.random.uniform([], 0.6, 1.4) * (image - mean)
    grey = tf.image.rgb_to_grayscale(image)
    return tf.clip_by_value(grey + tf.random.uniform([], 0.6, 1.4) * (image - grey), 0.0, 1.0) * 255.0


_SHEAR = _addons(lambda tfa, images: tfa.transform(images, [1.0, 0.1, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], "bilinear"))
_HOLE = _addons(lambda tfa, images: tfa.random_cutout(images, (16, 16)))
_SPREAD = {"mean": [255.0 * m for m in MEAN], "variance": [(255.0 * s) ** 2 for s in STD]}
_SINGLE: dict[str, Any] = {"is_batched": False}
COUNTERPARTS = (
    Counterpart("dilate(3)", "tf.nn.dilation2d", _morphology("dilation2d")),
    Counterpart("erode(3)", "tf.nn.erosion2d", _morphology("erosion2d"), FLOATS),
    Counterpart(
        "gaussian_blur(11, 0.8)",
        "tfa.image.gaussian_filter2d",
        _addons(lambda tfa, images: tfa.gaussian_filter2d(images, (11, 11), 0.8)),
    ),
    Counterpart("sharpen()", "tfa.image.sharpness", _addons(lambda tfa, images: tfa.sharpness(images, 1.5))),
    Counterpart("random_flip()", "Keras RandomFlip", _keras("RandomFlip", "horizontal")),
    Counterpart("random_rotation(0.1)", "Keras RandomRotation", _keras("RandomRotation", 0.1)),
    Counterpart("random_zoom(0.1)", "Keras RandomZoom", _keras("RandomZoom", 0.1)),
    Counterpart("random_translation()", "Keras RandomTranslation", _keras("RandomTranslation", 0.1, 0.1)),
    Counterpart("random_shear()", "tfa.image.transform", _SHEAR),
    Counterpart(
        "affine(degrees=10.0)",
        "tfa.image.rotate",
        _addons(lambda tfa, images: tfa.rotate(images, 0.1745, "bilinear", "reflect")),
    ),
    Counterpart("random_affine()", "tfa.image.transform", _SHEAR),
    Counterpart(
        "random_brightness()",
        "tf.image.random_brightness",
        _stock(lambda tf, image: tf.image.random_brightness(image, 0.2)),
        **_SINGLE,
    ),
    Counterpart(
        "random_contrast()",
        "tf.image.random_contrast",
        _stock(lambda tf, image: tf.image.random_contrast(image, 0.8, 1.2)),
        **_SINGLE,
    ),
    Counterpart(
        "random_saturation()",
        "tf.image.random_saturation",
        _stock(lambda tf, image: tf.image.random_saturation(image, 0.6, 1.4)),
        **_SINGLE,
    ),
    Counterpart(
        "random_hue()", "tf.image.random_hue", _stock(lambda tf, image: tf.image.random_hue(image, 0.1)), **_SINGLE
    ),
    Counterpart("color_jitter()", "its formulas in tf.image", _stock(_jitter), LEVELS, **_SINGLE),
    Counterpart(
        "grayscale()", "tf.image.rgb_to_grayscale", _stock(lambda tf, images: tf.image.rgb_to_grayscale(images))
    ),
    Counterpart("equalize()", "tfa.image.equalize", _addons(lambda tfa, images: tfa.equalize(images))),
    Counterpart("gamma(1.5)", "tf.image.adjust_gamma", _stock(lambda tf, images: tf.image.adjust_gamma(images, 1.5))),
    Counterpart("gaussian_noise()", "Keras GaussianNoise", _keras("GaussianNoise", 0.1), FLOATS),
    Counterpart("cutout()", "tfa.image.random_cutout", _HOLE),
    Counterpart("random_erasing()", "tfa.image.random_cutout", _HOLE),
    Counterpart("rescale()", "Keras Rescaling", _keras("Rescaling", 1 / 255), LEVELS),
    Counterpart(f"normalize({MEAN}, {STD})", "Keras Normalization", _keras("Normalization", **_SPREAD), LEVELS),
    Counterpart("cast('float32')", "tf.cast", _stock(lambda tf, images: tf.cast(images, tf.float32)), LEVELS),
    Counterpart(
        "resize({h2}, {w2})", "tf.image.resize", _half(lambda tf, images, h, w: tf.image.resize(images, [h, w]))
    ),
    Counterpart(
        "resize({h2}, {w2}, 'area')",
        "tf.image.resize, area",
        _half(lambda tf, images, h, w: tf.image.resize(images, [h, w], "area")),
    ),
    Counterpart(
        "pad(4, 4, 4, 4)", "tf.pad", _stock(lambda tf, images: tf.pad(images, [[0, 0], [4, 4], [4, 4], [0, 0]]))
    ),
    Counterpart(
        "center_crop({h2}, {w2})",
        "Keras CenterCrop",
        _half(lambda tf, images, h, w: tf.keras.layers.CenterCrop(h, w)(images)),
    ),
    Counterpart(
        "random_crop({h2}, {w2})",
        "tf.image.random_crop",
        _half(lambda tf, image, h, w: tf.image.random_crop(image, [h, w, 3])),
        **_SINGLE,
    ),
    Counterpart(
        "random_resized_crop({h}, {w})",
        "tf.image.sample_distorted_bounding_box and resize",
        _stock(_crop),
        **_SINGLE,
    ),
)
