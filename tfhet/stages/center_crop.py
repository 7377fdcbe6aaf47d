"""Stages that cut the middle out of images: center_crop, and resized_center_crop, which resizes them before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import CountOrZero, Stage
from tfhet.stages.window import Window


@register("center_crop")
@dataclass(frozen=True)
class CenterCrop(Stage):
    """Cuts the middle out of every image.

    Where margins are odd, the bottom and the right one are larger, as in the Keras layer CenterCrop.
    """

    height: CountOrZero = 0
    """Rows of the result; 0: as many as the shorter side of the image has."""
    width: CountOrZero = 0
    """Columns of the result; 0: as many as the shorter side of the image has."""

    keeps_shape: ClassVar[bool] = False
    commutes_with_rescale: ClassVar[bool] = True

    def spec(self, spec: ImageSpec) -> ImageSpec:
        height, width = self._size(spec.height, spec.width)
        return replace(spec, height=height, width=width)

    def _size(self, height: int | None, width: int | None) -> tuple[int, int]:
        """Returns rows and columns of the result from those of the images, which are None where unknown."""
        if height is None or width is None:
            if not (self.height and self.width):
                self.refuse("the shorter side of the images is not known: give height and width, or resize before")
            return self.height, self.width
        result = self.height or min(height, width), self.width or min(height, width)
        if result[0] > height or result[1] > width:
            self.refuse(f"{result[0]} x {result[1]} pixels are more than the {height} x {width} there are: pad before")
        return result

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        height, width = self._size(images.shape[1], images.shape[2])
        size = tf.shape(images)
        top, left = (size[1] - height) // 2, (size[2] - width) // 2
        cut = tf.slice(images, tf.stack([0, top, left, 0]), [-1, height, width, -1])
        return native.shaped(cut, [None, height, width, images.shape[3]])


@register("resized_center_crop")
@dataclass(frozen=True)
class ResizedCenterCrop(Window):
    """Does torchvision's Resize(shorter) and CenterCrop((height, width)), to the pixel, in one bilinear sampling.

    Only the pixels that the crop shows are sampled; uint8 results are rounded once.
    """

    height: int = 224
    """Rows of the result, from 1 to `shorter`."""
    width: int = 224
    """Columns of the result, from 1 to `shorter`."""
    shorter: int = 256
    """Length of the resized image's shorter side."""
    antialias: bool = False
    """Whether a pixel of a shrunken image is a mean of the pixels that it covers, torchvision's default."""

    commutes_with_rescale: ClassVar[bool] = True
    confined: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= min(self.height, self.width) <= max(self.height, self.width) <= self.shorter:
            self.refuse(f"height and width are 1 to shorter, {self.shorter}, not {self.height}, {self.width}")

    def windows(self, parameters: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        resized = self.shorter * sizes // tf.reduce_min(sizes, axis=1, keepdims=True)
        steps = tf.cast(sizes, tf.float32) / tf.cast(resized, tf.float32)
        # Halves are rounded to even, as by Python's round.
        first = tf.round(tf.cast(resized - [self.height, self.width], tf.float32) / 2.0)
        return tf.concat([first * steps, [float(self.height), float(self.width)] * steps], axis=1)
