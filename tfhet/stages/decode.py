"""Decodes image files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import decoding
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("decode")
@dataclass(frozen=True)
class Decode(Stage):
    """Decodes JPEG, PNG, BMP or GIF (first frame) to uint8, each image in its own size.

    Values are those of `tf.io.decode_image`. `random_resized_crop`, `resize` or `resized_center_crop` has to follow,
    which brings the images to one size. Together with it, and with a `random_flip()` after it, only the part of each
    image that is used is decoded.
    """

    channels: int = 3
    """Channels of the result: 1 (grey) or 3 (RGB)."""

    keeps_shape: ClassVar[bool] = False
    keeps_range: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("encoded",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels not in (1, 3):
            self.refuse(f"channels are 1 or 3, not {self.channels}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return ImageSpec(None, None, self.channels, "uint8", 0.0, 255.0, ragged=True)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns ragged uint8 [batch, (height), (width), channels] for string [batch]."""
        return decoding.decode(images, self.channels)
