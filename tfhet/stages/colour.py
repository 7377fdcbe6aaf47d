"""Mixes the three colours of each pixel and rotates their hue: random_hue, and what others need of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.levels import FullRange
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Within


@register("random_hue")
@dataclass(frozen=True)
class RandomHue(FullRange):
    """Adds a uniform number to the hue of HSV, as `tf.image.random_hue` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay unchanged.
    """

    delta: Annotated[float, Within(0, 0.5)] = 0.1
    """Maximum rotation either way, in turns of the colour wheel: 1/3 makes red green. From 0 to 0.5."""

    random: ClassVar[bool] = True
    of_colours: ClassVar[bool] = True

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `hue`, in turns, positive from red to green to blue: float32 [batch]."""
        return {"hue": randomness.uniform(keys, 0, -self.delta, self.delta)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return images if images.shape[3] == 1 else mixed(images, turns=parameters["hue"])


def mixed(
    images: tf.Tensor,
    matrices: tf.Tensor | None = None,
    offsets: tf.Tensor | None = None,
    turns: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the images after a linear mix of colours and a rotation of the hue, either of which may be omitted.

    images: uint8 in 0..255 or float32 in 0..1, [batch, H, W, 3]; results are clipped, and rounded for uint8. matrices:
    float32 [1 or batch, 3, 3], multiplied with each colour (a row). offsets: float32 [1 or batch, 3], added, in the
    images' units. turns: float32 [batch], the rotation of the hue after clipping.
    """
    ops = native.ops("colour")
    if ops is not None:
        if matrices is None:
            matrices, offsets = tf.zeros([0, 3, 3]), tf.zeros([0, 3])
        elif offsets is None:
            offsets = tf.zeros([tf.shape(matrices)[0], 3])
        result = ops.tfhet_mix(images, matrices, offsets, tf.zeros([0]) if turns is None else turns)
        return native.shaped(result, images.shape)
    values, shape = tf.cast(images, tf.float32), tf.shape(images)
    if matrices is not None:
        pixels = tf.matmul(tf.reshape(values, [-1, shape[1] * shape[2], 3]), matrices)
        values = tf.reshape(pixels if offsets is None else pixels + offsets[:, tf.newaxis], shape)
    if turns is not None:
        if matrices is not None:
            values = tf.clip_by_value(values, 0.0, levels.FULL[images.dtype.name])
        values = _turned(values, turns)
    return native.shaped(levels.restored(values, images.dtype), images.shape)


def _turned(colours: tf.Tensor, turns: tf.Tensor) -> tf.Tensor:
    """Rotates the hue of colours, float32 [batch, H, W, 3] from 0, by turns, float32 [batch].

    Each pixel stays within its own smallest and largest value.
    """
    # Whole planes of a colour, and masks that are multiplied: a tf.where costs as much as twenty additions.
    planes = tf.transpose(colours, [3, 0, 1, 2])
    (red, green, blue), (most, least) = tf.unstack(planes), most_and_least(planes)
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


def most_and_least(planes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the largest and the smallest value of each pixel. planes: float32 [3, ...]."""
    red, green, blue = tf.unstack(planes)
    return tf.maximum(tf.maximum(red, green), blue), tf.minimum(tf.minimum(red, green), blue)
