"""Geometric transforms of a batch of images, one matrix per image.

A transform is float32 [batch, 8]: (a0 a1 a2 b0 b1 b2 c0 c1) sends the *output* point (x, y) to the input point
((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) with k = c0 x + c1 y + 1, as in `ImageProjectiveTransformV3`. The
matrices equal the layers RandomRotation, RandomZoom and RandomTranslation of Keras 2.15 and 3.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import tensorflow as tf

from tfhet import native
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage

FILLS = ("constant", "nearest", "reflect", "wrap")
"""Fills beyond the edge: `fill_value`, the edge pixel, the image mirrored (the edge twice), the image again."""


def rotation(angles: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Rotates about the centre by angles, float32 [batch] in radians, positive counter-clockwise. Sizes in pixels."""
    cos, sin = tf.cos(angles), tf.sin(angles)
    right, bottom = tf.cast(width, tf.float32) - 1.0, tf.cast(height, tf.float32) - 1.0
    x_offset = (right - (cos * right - sin * bottom)) / 2.0
    y_offset = (bottom - (sin * right + cos * bottom)) / 2.0
    zero = tf.zeros_like(angles)
    return tf.stack([cos, -sin, x_offset, sin, cos, y_offset, zero, zero], axis=1)


def zooming(zooms: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Zooms about the centre by float32 [batch]; above 1 zooms out. Sizes in pixels."""
    x_offset = (tf.cast(width, tf.float32) - 1.0) / 2.0 * (1.0 - zooms)
    y_offset = (tf.cast(height, tf.float32) - 1.0) / 2.0 * (1.0 - zooms)
    zero = tf.zeros_like(zooms)
    return tf.stack([zooms, zero, x_offset, zero, zooms, y_offset, zero, zero], axis=1)


def translation(down: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Moves the content by float32 [batch] pixels."""
    zero, one = tf.zeros_like(down), tf.ones_like(down)
    return tf.stack([one, zero, -right, zero, one, -down, zero, zero], axis=1)


def shearing(shears: tf.Tensor, height: tf.Tensor) -> tf.Tensor:
    """Shears about the centre, like Addons' `shear_x` about the top, by float32 [batch]: the columns by which a row's
    input lies right of the input of the row above. Height in pixels."""
    x_offset = (tf.cast(height, tf.float32) - 1.0) / 2.0 * -shears
    zero, one = tf.zeros_like(shears), tf.ones_like(shears)
    return tf.stack([one, shears, x_offset, zero, one, zero, zero, zero], axis=1)


def resizing(height: tf.Tensor, width: tf.Tensor, new_height: int, new_width: int) -> tf.Tensor:
    """Resizes, float32 [1, 8], with centres of pixels half a pixel from the edges, as `tf.image.resize` does."""
    down, across = tf.cast(height, tf.float32) / new_height, tf.cast(width, tf.float32) / new_width
    zero = tf.zeros([])
    row = [across, zero, (across - 1.0) / 2.0, zero, down, (down - 1.0) / 2.0, zero, zero]
    return tf.stack(row)[tf.newaxis]


def composed(first: tf.Tensor, *later: tf.Tensor) -> tf.Tensor:
    """Returns the transform, float32 [batch, 8], that stands for sampling by each transform in turn."""
    matrix = _matrix(first)
    for transforms in later:
        # Each sends output to input points, so the last one applies first to an output point.
        matrix = tf.matmul(matrix, _matrix(transforms))
    flat = tf.reshape(matrix, [-1, 9])
    return flat[:, :8] / flat[:, 8:]


def affine(
    height: tf.Tensor,
    width: tf.Tensor,
    angles: tf.Tensor,
    down: tf.Tensor,
    right: tf.Tensor,
    scales: tf.Tensor,
    shears: tf.Tensor,
) -> tf.Tensor:
    """Scales, shears and rotates about the centre, then moves: float32 [batch, 8]. Sizes in pixels, the others float32
    [batch]: radians, fractions of the size, factors (above 1 enlarges) and columns per row."""
    return composed(
        zooming(1.0 / scales, height, width),
        shearing(shears, height),
        rotation(angles, height, width),
        translation(down * tf.cast(height, tf.float32), right * tf.cast(width, tf.float32)),
    )


def _matrix(transforms: tf.Tensor) -> tf.Tensor:
    ones = tf.ones_like(transforms[:, :1])
    return tf.reshape(tf.concat([transforms, ones], axis=1), [-1, 3, 3])


def flipping(across: tf.Tensor, upright: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Exchanges left and right, and top and bottom, where bool [batch] is true. Sizes in pixels."""
    zero = tf.zeros_like(across, tf.float32)
    turns = []
    for flips, length in ((across, width), (upright, height)):
        last = tf.cast(length, tf.float32) - 1.0
        turns.append((tf.where(flips, -1.0, 1.0), tf.where(flips, last, 0.0)))
    (x_scale, x_offset), (y_scale, y_offset) = turns
    return tf.stack([x_scale, zero, x_offset, zero, y_scale, y_offset, zero, zero], axis=1)


def project(
    images: tf.Tensor,
    transforms: tf.Tensor,
    fill_mode: str = "reflect",
    fill_value: float = 0.0,
    size: tuple[int, int] | None = None,
) -> tf.Tensor:
    """Samples images, uint8 or float32 [batch, H, W, C], bilinearly at transformed places: [batch, h, w, C].

    transforms: float32 [batch, 8], or [1, 8] for all images. fill_mode: one of FILLS. size: rows and columns of the
    result; None for the images' own. uint8 results are rounded, because truncation would darken the image by half a
    level on average. The compiled and the plain op give the same values bit for bit, unless coordinates are so large
    that float32 has no fractions for them.
    """
    shape = tf.shape(images)[1:3] if size is None else tf.constant(size, tf.int32)
    mode, result_shape = fill_mode.upper(), [images.shape[0], *(size or images.shape[1:3]), images.shape[3]]
    if (ops := native.ops("sampling")) is not None:
        projected = ops.tfhet_project(
            images, transforms, shape, fill_mode=mode, fill_value=fill_value, interpolation="BILINEAR"
        )
        return native.shaped(projected, result_shape)
    projected = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(images, tf.float32),
        transforms=transforms,
        output_shape=shape,
        fill_value=fill_value,
        interpolation="BILINEAR",
        fill_mode=mode,
    )
    rounded = projected if images.dtype == tf.float32 else tf.cast(tf.round(projected), images.dtype)
    return native.shaped(rounded, result_shape)


class Geometric(Stage):
    """A stage that is one projective transform per image. Neighbouring stages of this kind are sampled together, and a
    mask or a box can be moved by the image's transform."""

    @property
    def moves(self) -> bool:
        """Whether the stage, as configured, is only that transform with a bilinear sampling."""
        return True

    @property
    def fill(self) -> tuple[str, float] | None:
        """One of `FILLS` and the value of `constant`; None for a transform that does not reach beyond the edge."""
        return None

    def size(self, spec: ImageSpec) -> tuple[int, int] | None:
        """Returns rows and columns of the result; None for the images' own."""
        return None

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Returns float32 [batch, 8], or [1, 8] for all images, as in `projection`. height, width: in pixels."""
        raise NotImplementedError

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        transforms = self.transforms(parameters, *tf.unstack(tf.shape(images)[1:3]))
        mode, value = self.fill or ("nearest", 0.0)
        return project(images, transforms, mode, value, self.size(ImageSpec.of(images)))


FillMode: TypeAlias = Annotated[str, FILLS]


class Filled(Geometric):
    """A stage whose fields say how to fill what lies beyond the edge."""

    fill_mode: str
    """Fill beyond the edge: constant, nearest, reflect or wrap."""
    fill_value: float
    """Value of `constant`, within the range of the images."""

    @property
    def commutes_with_rescale(self) -> bool:
        # A constant would be rescaled together with the images, or not.
        return self.fill_mode != "constant"

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if self.fill_mode == "constant":
            self.check_value("fill_value", self.fill_value, spec)
        return spec

    @property
    def fill(self) -> tuple[str, float]:
        return self.fill_mode, self.fill_value
