"""Resizes a window of each image of a batch to one size, bilinearly. All stages that resize use it.

Each new pixel is a mean of pixels, weighted by a triangle around its centre: one pixel wide on either side, which is
linear interpolation, or as wide as a new pixel where `antialias` shrinks, as in Pillow and
`tf.image.resize(antialias=True)`. `TfhetResizeWindows` does so in two passes over rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@dataclass(frozen=True)
class Scaling:
    """The size to which windows are resized, in pixels, and how."""

    height: int
    width: int
    antialias: bool = False
    confined: bool = True
    """Whether the window's own edge is repeated beyond it; else the pixels around it count, up to the image's edge."""


def resize_windows(images: tf.Tensor, windows: tf.Tensor, flips: tf.Tensor | None, scaling: Scaling) -> tf.Tensor:
    """Returns windows of images, uint8 (rounded) or float32 [batch, H, W, C], resized to [batch, height, width, C].
    windows: float32 [1 or batch, 4], first row, first column, rows and columns, in pixels of the images or fractions of
    them. flips: bool [1 or batch], whether left and right are exchanged; None for no flips."""
    windows = tf.cast(windows, tf.float32)
    flips = tf.zeros([1], tf.bool) if flips is None else flips
    if (operations := native.ops("resize")) is None:
        result = plain(images, windows, flips, scaling)
    else:
        result = operations.tfhet_resize_windows(images, windows, flips, **vars(scaling))
    return native.shaped(result, [images.shape[0], scaling.height, scaling.width, images.shape[3]])


def plain(images: tf.Tensor, windows: tf.Tensor, flips: tf.Tensor, scaling: Scaling) -> tf.Tensor:
    """Does the same as `resize_windows` by TensorFlow's own operations; flips are a tensor, bool [1 or batch]."""
    values, batch = tf.cast(images, tf.float32), tf.shape(images)[0]
    windows, flips = tf.broadcast_to(windows, [batch, 4]), tf.broadcast_to(flips, [batch])
    for axis, size in ((0, scaling.height), (1, scaling.width)):
        begin, length, limit = windows[:, axis], windows[:, 2 + axis], tf.shape(images)[1 + axis]
        centres, low, high = _centres(begin, length, size, limit, scaling.confined)
        if axis == 1:
            centres = tf.where(flips[:, None], centres[:, ::-1], centres)
        support = tf.maximum(length / float(size), 1.0)[:, None, None] if scaling.antialias else 1.0
        values = _weighted(values, centres, low, high, support, axis)
    return values if images.dtype == tf.float32 else tf.saturate_cast(tf.round(values), images.dtype)


def _centres(
    begin: tf.Tensor, length: tf.Tensor, size: int, limit: tf.Tensor, confined: bool
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the centres of new pixels, [batch, size], in units of old ones, the first old pixel that counts, and the
    one after the last, both [batch or 1, 1]."""
    places = tf.range(size, dtype=tf.float32) + 0.5
    centres = begin[:, None] + places * (length / float(size))[:, None] - 0.5
    end = tf.reshape(tf.cast(limit, tf.float32), [-1, 1])
    if not confined:
        return centres, tf.zeros_like(end), end
    low = tf.clip_by_value(tf.floor(begin + 1e-4)[:, None], 0.0, end - 1.0)
    return centres, low, tf.clip_by_value(tf.math.ceil(begin + length - 1e-4)[:, None], low + 1.0, end)


def _weighted(
    values: tf.Tensor, centres: tf.Tensor, low: tf.Tensor, high: tf.Tensor, support: tf.Tensor | float, axis: int
) -> tf.Tensor:
    pixels = tf.range(tf.cast(tf.shape(values)[1 + axis], tf.float32))
    centres = tf.clip_by_value(centres, low - 0.5, high - 0.5)
    weights = tf.maximum(1.0 - tf.abs(pixels - centres[..., None]) / support, 0.0)
    weights = tf.where((pixels >= low[..., None]) & (pixels < high[..., None]), weights, 0.0)
    weights /= tf.reduce_sum(weights, axis=2, keepdims=True)
    return tf.einsum("boh,bhwc->bowc" if axis == 0 else "bow,bhwc->bhoc", weights, values)


class Window(Stage):
    """A stage that is one bilinear sampling of a window of each image, which depends only on the image's size: after
    `decode` only the window has to be decoded."""

    keeps_shape: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("images", "ragged")
    confined: ClassVar[bool] = True
    """Whether the window's own edge is repeated beyond it; else the image continues there."""

    height: int
    width: int
    antialias: bool

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return replace(spec, height=self.height, width=self.width, ragged=False)

    @property
    def bilinear(self) -> bool:
        """Whether the stage is a bilinear sampling of its windows. If not, it needs decoded images of one size."""
        return True

    @property
    def scaling(self) -> Scaling:
        return Scaling(self.height, self.width, self.antialias, self.confined)

    def windows(self, parameters: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        """Returns first row, first column, rows and columns of each window, in pixels of its image: float32 [1 or
        batch, 4]. sizes: int32 [1 or batch, 2], rows and columns of the images."""
        raise NotImplementedError

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns resized windows of images: [batch, height, width, channels], or the ragged result of `decode`."""
        if isinstance(images, tf.RaggedTensor):
            return self._of_many_sizes(images, parameters)
        windows = self.windows(parameters, tf.shape(images)[tf.newaxis, 1:3])
        return resize_windows(images, windows, None, self.scaling)

    def _of_many_sizes(self, images: tf.RaggedTensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        rows = images.row_lengths()
        columns = tf.gather(images.values.row_lengths(), images.row_starts())
        windows = self.windows(parameters, tf.cast(tf.stack([rows, columns], axis=1), tf.int32))

        def one(item: tuple[tf.RaggedTensor, tf.Tensor]) -> tf.Tensor:
            image, window = item[0].to_tensor()[None], item[1][None]
            return resize_windows(image, window, None, self.scaling)[0]

        return tf.map_fn(one, (images, windows), fn_output_signature=tf.uint8)
