"""Grey levels: the full range of images, clipping to it, and the grey of a colour."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from tfhet.stages.line import Line, apply_line
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage

FULL = {"uint8": 255.0, "float32": 1.0}
"""Brightest level by dtype; the darkest is 0."""

LUMA = (19595.0, 38470.0, 7471.0)
"""Weights of red, green and blue in grey, in 65536ths: ITU-R 601-2 as rounded for Pillow's mode L. They sum to 1.
Products with uint8 and their sum stay below 2**24, so float32 holds them exactly."""


def full_range(stage: Stage, spec: ImageSpec) -> ImageSpec:
    """Returns `spec`. Raises UsageError, naming the stage, unless images are uint8 in 0..255 or float32 in 0..1."""
    full = FULL[spec.dtype]
    if not (math.isclose(spec.low, 0.0, abs_tol=1e-6) and math.isclose(spec.high, full, rel_tol=1e-6)):
        stage.refuse(
            f"needs {spec.dtype} images from 0 to {full:g}, not {spec.low:g} to {spec.high:g}: put it before the stage "
            "that changes the range, or rescale to 0..1 before it"
        )
    return spec


def grey_or_rgb(stage: Stage, spec: ImageSpec) -> ImageSpec:
    """Returns `spec`. Raises UsageError, naming the stage, unless images have 1 or 3 channels."""
    if spec.channels not in (1, 3):
        stage.refuse(f"needs images of 1 or 3 channels, not {spec.channels}")
    return spec


def restored(values: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Converts float32 to `dtype`: clips it to the full range, and rounds it for uint8."""
    # tf.clip_by_value is two operations; this is one.
    clip = tf.raw_ops.ClipByValue
    if dtype.is_floating:
        return clip(t=values, clip_value_min=0.0, clip_value_max=1.0)
    return tf.cast(clip(t=values + 0.5, clip_value_min=0.0, clip_value_max=255.0), dtype)


def in_levels(images: tf.Tensor) -> tf.Tensor:
    """Converts float32 in 0..1 to uint8, each value to the nearest of 256 levels; uint8 stays unchanged."""
    return apply_line(images, Line.of(255.0), tf.uint8) if images.dtype.is_floating else images


def as_given(levels: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Converts uint8 levels back from `in_levels` to `dtype`: for float32 they are 255ths."""
    return tf.cast(levels, tf.float32) * (1.0 / 255.0) if dtype.is_floating else levels


def per_image(values: tf.Tensor) -> tf.Tensor:
    """Returns [batch, 1, 1, 1] for [batch], which broadcasts over images."""
    return values[:, tf.newaxis, tf.newaxis, tf.newaxis]


def over_pixels(reduce: Callable[..., tf.Tensor], images: tf.Tensor) -> tf.Tensor:
    """Reduces [batch, H, W, C] to [batch, 1, 1, C] by tf.reduce_mean, tf.reduce_min or tf.reduce_max."""
    shape, channels = tf.shape(images), images.shape[3]
    # First over whole lines, each column by itself: both axes at once take three times as long.
    columns = reduce(tf.reshape(images, [shape[0], shape[1], shape[2] * channels]), axis=1)
    reduced = reduce(tf.reshape(columns, [shape[0], shape[2], channels]), axis=1)
    return reduced[:, tf.newaxis, tf.newaxis, :]
