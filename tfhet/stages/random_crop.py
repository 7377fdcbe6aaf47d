"""Cuts a window out of each image at a random place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import projection, randomness
from tfhet.stages.pad import FILLS, MODES, Bordered
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import CountOrZero


@register("random_crop")
@dataclass(frozen=True)
class RandomCrop(Bordered):
    """Cuts a window out of each image, all places being equally likely, as torchvision's RandomCrop.

    `random_crop(padding=4)` is usual for CIFAR: it pads by 4 pixels on each side and cuts back to the former size.
    """

    height: CountOrZero = 0
    """Rows of the result; 0 for those of the image."""
    width: CountOrZero = 0
    """Columns of the result; 0 for those of the image."""
    padding: CountOrZero = 0
    """Number of pixels that are first added on each side."""
    mode: Annotated[str, MODES] = "constant"
    """Kind of padding: constant (`value`), edge, reflect or symmetric, as in `pad`."""
    value: float = 0.0

    random: ClassVar[bool] = True

    @property
    def _adds_value(self) -> bool:
        return self.padding > 0 and self.mode == "constant"

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if self._adds_value:
            self.check_value("value", self.value, spec, whole=True)
        height, width = self._size(spec.height, spec.width)
        return replace(spec, height=height, width=width)

    def _size(self, height: int | None, width: int | None) -> tuple[int, int]:
        if height is None or width is None:
            self.refuse("height and width of the images must be known: resize them before")
        result = self.height or height, self.width or width
        room = height + 2 * self.padding, width + 2 * self.padding
        if result[0] > room[0] or result[1] > room[1]:
            self.refuse(f"{result[0]} x {result[1]} pixels do not fit into {room[0]} x {room[1]}: give more padding")
        return result

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `top` and `left`, the window's first row and column in the padded image: int32 [batch]."""
        cut = self.spec(spec)
        drawn = {}
        sides = (("top", spec.height, cut.height), ("left", spec.width, cut.width))
        for draw, (name, there, wanted) in enumerate(sides):
            assert there is not None and wanted is not None  # `spec` refuses sizes that are not known
            places = there + 2 * self.padding - wanted + 1
            # Truncated to whole numbers, never to `places` itself: (1 - 2**-24) * n < n in float32 for all n < 2**24.
            drawn[name] = tf.cast(randomness.uniform(keys, draw, 0.0, float(places)), tf.int32)
        return drawn

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        height, width = self._size(images.shape[1], images.shape[2])
        border = self.padding
        compiled = native.ops("sampling")
        if compiled is not None and (self.mode in FILLS or not border):
            down, right = (tf.cast(border - parameters[name], tf.float32) for name in ("top", "left"))
            moves = projection.translation(down, right)
            return projection.project(images, moves, FILLS.get(self.mode, "nearest"), self.value, (height, width))
        rows, columns = np.arange(images.shape[1]), np.arange(images.shape[2])
        if border and self.mode == "constant":
            around = (border, border)
            images = tf.pad(images, [(0, 0), around, around, (0, 0)], constant_values=tf.cast(self.value, images.dtype))
            rows, columns = np.arange(images.shape[1]), np.arange(images.shape[2])
        else:  # no border is built: it repeats pixels of the image
            rows, columns = (np.pad(each, border, mode=self.mode) for each in (rows, columns))  # type: ignore[call-overload]
        # One gather of whole pixels: 5 us for a 32x32 RGB image with a border of 4 (TF 2.15.1, batch 256). Rows and
        # then columns take 6.5, halving the shifts by Select 8.5, a projection with whole offsets 12.
        across = tf.gather(tf.constant(columns, tf.int32), parameters["left"][:, None] + tf.range(width))
        down = tf.gather(tf.constant(rows, tf.int32), parameters["top"][:, None] + tf.range(height))
        size = tf.shape(images)
        lines = tf.range(size[0])[:, None] * size[1] + down
        pixels = lines[:, :, None] * size[2] + across[:, None, :]
        return tf.gather(tf.reshape(images, [-1, images.shape[3]]), pixels)
