"""Counterparts of stages in TensorFlow, Keras and Addons, as users of these libraries write them."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import MEAN, STD

if TYPE_CHECKING:
    import tensorflow as tf

Work = Callable[[Any], Any]
"""An operation on images."""
BOTH, LEVELS, FLOATS = ("uint8", "float32"), ("uint8",), ("float32",)
"""Dtypes of images that a stage and its counterpart take; float32 is from 0 to 1."""
ROOTS = {"tf": "tensorflow", "tfa": "tensorflow_addons"}


@dataclass(frozen=True)
class Counterpart:
    """An operation of another library, on a batch if the library supports that, else on single images."""

    stage: str
    """As `tfhet.stages.parse` takes it; {h} and {w} stand for height and width, {h2} and {w2} for half of them."""
    words: str
    """Its name: a function, or `Keras` and a layer, perhaps with a remark after a comma."""
    arguments: tuple[Any, ...] | Callable[[int, int], tuple[Any, ...]] = ()
    """Arguments after the images or of the layer, or (half the height, half the width) -> arguments."""
    dtypes: tuple[str, ...] = BOTH
    is_batched: bool = True
    work: Callable[[Any, Any], Any] | None = None
    """(tensorflow, images) -> images, instead of the operation called `words`."""

    def make(self, height: int, width: int) -> Work:
        """Returns the operation for images of one size. Raises ImportError if its library is missing."""
        import tensorflow as tf

        if self.work is not None:
            return functools.partial(self.work, tf)
        arguments = self.arguments(height // 2, width // 2) if callable(self.arguments) else self.arguments
        library, *path = self.words.partition(",")[0].replace(" ", ".").split(".")
        if library == "Keras":
            layer = getattr(tf.keras.layers, path[0])(*arguments)
            try:
                layer(tf.zeros([1, height, width, 3]), training=True)
            except TypeError:
                return lambda images: layer(images)
            return lambda images: layer(images, training=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Addons announces its end of life at import
            function: Any = functools.reduce(getattr, path, importlib.import_module(ROOTS[library]))
        return lambda images: function(images, *arguments)


def as_stage(result: tf.Tensor, dtype: str) -> tf.Tensor:
    """Returns the result in the stage's dtype: libraries leave levels as float32."""
    import tensorflow as tf

    if result.dtype.name == dtype:
        return result
    return tf.saturate_cast(tf.round(result) if dtype == "uint8" else result, dtype)


def _morphology(name: str, tf: Any, images: Any) -> Any:
    once = [1, 1, 1, 1]
    return getattr(tf.nn, name)(images, tf.zeros([3, 3, images.shape[3]], images.dtype), once, "SAME", "NHWC", once)


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


_dilated, _eroded = (functools.partial(_morphology, name) for name in ("dilation2d", "erosion2d"))
_SHEAR = ([1.0, 0.1, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], "bilinear")
_SPREAD = (-1, [255.0 * m for m in MEAN], [(255.0 * s) ** 2 for s in STD])
_SINGLE = (BOTH, False)
COUNTERPARTS = (
    Counterpart("dilate(3)", "tf.nn.dilation2d", work=_dilated),
    Counterpart("erode(3)", "tf.nn.erosion2d", dtypes=FLOATS, work=_eroded),
    Counterpart("gaussian_blur(11, 0.8)", "tfa.image.gaussian_filter2d", ((11, 11), 0.8)),
    Counterpart("sharpen()", "tfa.image.sharpness", (1.5,)),
    Counterpart("random_flip()", "Keras RandomFlip", ("horizontal",)),
    Counterpart("random_rotation(0.1)", "Keras RandomRotation", (0.1,)),
    Counterpart("random_zoom(0.1)", "Keras RandomZoom", (0.1,)),
    Counterpart("random_translation()", "Keras RandomTranslation", (0.1, 0.1)),
    Counterpart("random_shear()", "tfa.image.transform", _SHEAR),
    Counterpart("affine(degrees=10.0)", "tfa.image.rotate", (0.1745, "bilinear", "reflect")),
    Counterpart("random_affine()", "tfa.image.transform", _SHEAR),
    Counterpart("random_brightness()", "tf.image.random_brightness", (0.2,), *_SINGLE),
    Counterpart("random_contrast()", "tf.image.random_contrast", (0.8, 1.2), *_SINGLE),
    Counterpart("random_saturation()", "tf.image.random_saturation", (0.6, 1.4), *_SINGLE),
    Counterpart("random_hue()", "tf.image.random_hue", (0.1,), *_SINGLE),
    Counterpart("color_jitter()", "its formulas in tf.image", (), LEVELS, False, _jitter),
    Counterpart("grayscale()", "tf.image.rgb_to_grayscale"),
    Counterpart("equalize()", "tfa.image.equalize"),
    Counterpart("gamma(1.5)", "tf.image.adjust_gamma", (1.5,)),
    Counterpart("gaussian_noise()", "Keras GaussianNoise", (0.1,), FLOATS),
    Counterpart("cutout()", "tfa.image.random_cutout", ((16, 16),)),
    Counterpart("random_erasing()", "tfa.image.random_cutout", ((16, 16),)),
    Counterpart("rescale()", "Keras Rescaling", (1 / 255,), LEVELS),
    Counterpart(f"normalize({MEAN}, {STD})", "Keras Normalization", _SPREAD, LEVELS),
    Counterpart("cast('float32')", "tf.cast", ("float32",), LEVELS),
    Counterpart("resize({h2}, {w2})", "tf.image.resize", lambda h2, w2: ([h2, w2],)),
    Counterpart("resize({h2}, {w2}, 'area')", "tf.image.resize, area", lambda h2, w2: ([h2, w2], "area")),
    Counterpart("pad(4, 4, 4, 4)", "tf.pad", ([[0, 0], [4, 4], [4, 4], [0, 0]],)),
    Counterpart("center_crop({h2}, {w2})", "Keras CenterCrop", lambda h2, w2: (h2, w2)),
    Counterpart("random_crop({h2}, {w2})", "tf.image.random_crop", lambda h2, w2: ([h2, w2, 3],), *_SINGLE),
    Counterpart(
        "random_resized_crop({h}, {w})", "tf.image.sample_distorted_bounding_box and resize", (), *_SINGLE, _crop
    ),
)
