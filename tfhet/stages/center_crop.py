"""Cuts the middle out of every image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("center_crop")
@dataclass(frozen=True)
class CenterCrop(Stage):
    """Cuts the middle out of every image.

    Where margins are odd, the bottom and the right one are larger, as in the Keras layer CenterCrop.
    """

    height: int = 0
    """Rows of the result; 0: as many as the shorter side of the image has."""
    width: int = 0
    """Columns of the result; 0: as many as the shorter side of the image has."""

    keeps_shape: ClassVar[bool] = False
    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.height < 0 or self.width < 0:
            self.refuse(f"height and width are at least 1, or 0 for the shorter side, not {self.height}, {self.width}")

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
        cut.set_shape([None, height, width, images.shape[3]])
        return cut
