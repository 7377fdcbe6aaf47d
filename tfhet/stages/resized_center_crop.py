"""Resizes the shorter side of each image to one length, and cuts out the middle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.window import Window


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

    keeps_shape: ClassVar[bool] = False
    commutes_with_rescale: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ("images", "ragged")
    confined: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= min(self.height, self.width) <= max(self.height, self.width) <= self.shorter:
            self.refuse(f"height and width are 1 to shorter, {self.shorter}, not {self.height}, {self.width}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return replace(spec, height=self.height, width=self.width, ragged=False)

    def windows(self, parameters: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        resized = self.shorter * sizes // tf.reduce_min(sizes, axis=1, keepdims=True)
        steps = tf.cast(sizes, tf.float32) / tf.cast(resized, tf.float32)
        # Halves are rounded to even, as by Python's round.
        first = tf.round(tf.cast(resized - [self.height, self.width], tf.float32) / 2.0)
        return tf.concat([first * steps, [float(self.height), float(self.width)] * steps], axis=1)
