"""Grey levels: the full range of images, tables that replace levels, and statistics of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages.line import Line, apply_line
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage

FULL = {"uint8": 255.0, "float32": 1.0}
"""Brightest level by dtype; the darkest is 0."""

LUMA = (19595.0, 38470.0, 7471.0)
"""Weights of red, green and blue in grey, in 65536ths: ITU-R 601-2 as rounded for Pillow's mode L. They sum to 1.
Products with uint8 and their sum stay below 2**24, so float32 holds them exactly."""


class FullRange(Stage):
    """A stage for images in their full range: uint8 in 0..255 or float32 in 0..1."""

    of_colours: ClassVar[bool] = False
    """Whether images must have 1 or 3 channels."""
    shortest: ClassVar[int] = 1
    """Minimum height and width."""

    def spec(self, spec: ImageSpec) -> ImageSpec:
        """Returns `spec`. Raises UsageError, naming the stage, for images that do not fit."""
        full = FULL[spec.dtype]
        if not (math.isclose(spec.low, 0.0, abs_tol=1e-6) and math.isclose(spec.high, full, rel_tol=1e-6)):
            self.refuse(
                f"needs {spec.dtype} images from 0 to {full:g}, not {spec.low:g} to {spec.high:g}: put it before the "
                "stage that changes the range, or rescale to 0..1 before it"
            )
        for length in (spec.height, spec.width):
            if length is not None and length < self.shortest:
                self.refuse(f"needs images of at least {self.shortest} pixels each way, not {length}")
        return grey_or_rgb(self, spec) if self.of_colours else spec


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


def lookup(images: tf.Tensor, tables: tf.Tensor) -> tf.Tensor:
    """Replaces each value of images, uint8 [batch, H, W, C], or float32 in 0..1, which is rounded to 256 levels, by the
    entry for its level in tables, uint8 or float32 [1 or batch, 256, 1 or C], in the tables' dtype."""
    if (ops := native.ops("tone")) is not None:
        return native.shaped(ops.tfhet_lookup(images, tables), images.shape)
    shape = tf.shape(images)
    tables = tf.broadcast_to(tf.transpose(tables, [0, 2, 1]), [shape[0], shape[3], 256])
    planes = tf.transpose(tf.cast(in_levels(images), tf.int32), [0, 3, 1, 2])
    return native.shaped(tf.transpose(tf.gather(tables, planes, batch_dims=2), [0, 2, 3, 1]), images.shape)


@dataclass(frozen=True)
class Statistics:
    """Statistics of a batch, each float32 [batch, channels] in the units of the images."""

    mean: tf.Tensor
    low: tf.Tensor
    high: tf.Tensor

    @classmethod
    def of(cls, images: tf.Tensor) -> Statistics:
        """Computes the statistics of images, uint8 or float32 [batch, H, W, C]; H and W are not 0."""
        if (ops := native.ops("statistics")) is not None:
            shape = [images.shape[0], images.shape[3]]
            return cls(*(native.shaped(part, shape) for part in ops.tfhet_statistics(images)))
        values = tf.cast(images, tf.float32)
        return cls(*(reduce(values, axis=(1, 2)) for reduce in (tf.reduce_mean, tf.reduce_min, tf.reduce_max)))
