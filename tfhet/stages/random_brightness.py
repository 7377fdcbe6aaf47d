"""Makes each image lighter or darker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import levels, randomness
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("random_brightness")
@dataclass(frozen=True)
class RandomBrightness(Stage):
    """Adds one uniform number to all values of an image, as `tf.image.random_brightness` does, and clips.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.
    """

    delta: float = 0.2
    """Maximum that is added or subtracted, as a fraction of the full range: 0.2 is 51 levels of uint8. From 0 to 1."""

    random: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.delta <= 1.0:
            self.refuse(f"delta is a fraction of the full range, from 0 to 1, not {self.delta}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `brightness`, the number that is added, as a fraction of the full range: float32 [batch]."""
        return {"brightness": randomness.uniform(keys, 0, -self.delta, self.delta)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return apply_line(images, self._line(parameters, images.dtype.name), images.dtype)

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return self._line(parameters, spec.dtype)

    def _line(self, parameters: Mapping[str, tf.Tensor], dtype: str) -> Line:
        full = levels.FULL[dtype]
        return Line.per_image(offset=parameters["brightness"] * full, low=0.0, high=full)
