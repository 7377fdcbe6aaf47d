"""Turns the colours of each image about the colour wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import levels, randomness
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("random_hue")
@dataclass(frozen=True)
class RandomHue(Stage):
    """Adds a uniform number to the hue of HSV, as `tf.image.random_hue` does.

    uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay as they are.
    """

    delta: float = 0.1
    """The most either way, in turns of the colour wheel: 1/3 makes red green. From 0 to 0.5."""

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.delta <= 0.5:
            self.refuse(f"delta is in turns, from 0 to 0.5, not {self.delta}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.grey_or_rgb(self, levels.full_range(self, spec))

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """`hue`: float32 [batch], turns; positive goes from red to green to blue."""
        return {"hue": randomness.uniform(keys, 0, -self.delta, self.delta)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.shape[3] == 1:
            return images
        return levels.restored(hue_turned(tf.cast(images, tf.float32), parameters["hue"]), images.dtype)


def hue_turned(colours: tf.Tensor, turns: tf.Tensor) -> tf.Tensor:
    """colours: float32 [batch, H, W, 3], from 0; turns: float32 [batch] -> the same shape, never beyond each pixel's
    own smallest and largest value."""
    # Whole planes of a colour, and masks that are multiplied: a tf.where costs as much as twenty additions.
    red, green, blue = tf.unstack(tf.transpose(colours, [3, 0, 1, 2]))
    most = tf.maximum(tf.maximum(red, green), blue)
    least = tf.minimum(tf.minimum(red, green), blue)
    spread = most - least
    is_red = tf.cast(red >= most, tf.float32)
    is_green = tf.cast(green >= most, tf.float32) * (1.0 - is_red)
    is_blue = 1.0 - is_red - is_green
    aside = is_red * (green - blue) + is_green * (blue - red) + is_blue * (red - green)
    # The hue in sixths of a turn: red 0, green 2, blue 4.
    hue = aside / tf.maximum(spread, 1e-9) + 2.0 * is_green + 4.0 * is_blue + 6.0 * turns[:, tf.newaxis, tf.newaxis]
    hue -= 6.0 * tf.floor(hue * (1.0 / 6.0))
    shares = [tf.abs(hue - 3.0) - 1.0, 2.0 - tf.abs(hue - 2.0), 2.0 - tf.abs(hue - 4.0)]
    turned = least + spread * tf.clip_by_value(tf.stack(shares), 0.0, 1.0)
    return tf.transpose(turned, [1, 2, 3, 0])
