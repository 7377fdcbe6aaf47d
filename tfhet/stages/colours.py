"""Operations on the three colours of a pixel: a linear mix, and a rotation of the hue."""

from __future__ import annotations

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels


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
    if ops is None:
        return plain_mixed(images, matrices, offsets, turns)
    if matrices is None:
        matrices, offsets = tf.zeros([0, 3, 3]), tf.zeros([0, 3])
    elif offsets is None:
        offsets = tf.zeros([tf.shape(matrices)[0], 3])
    result = ops.tfhet_mix(images, matrices, offsets, tf.zeros([0]) if turns is None else turns)
    result.set_shape(images.shape)
    return result


def plain_mixed(
    images: tf.Tensor, matrices: tf.Tensor | None, offsets: tf.Tensor | None, turns: tf.Tensor | None
) -> tf.Tensor:
    """Does the same as `mixed` by TensorFlow's own operations."""
    values, shape = tf.cast(images, tf.float32), tf.shape(images)
    if matrices is not None:
        pixels = tf.matmul(tf.reshape(values, [-1, shape[1] * shape[2], 3]), matrices)
        values = tf.reshape(pixels if offsets is None else pixels + offsets[:, tf.newaxis], shape)
    if turns is not None:
        if matrices is not None:
            values = tf.clip_by_value(values, 0.0, levels.FULL[images.dtype.name])
        values = _turned(values, turns)
    result = levels.restored(values, images.dtype)
    result.set_shape(images.shape)
    return result


def _turned(colours: tf.Tensor, turns: tf.Tensor) -> tf.Tensor:
    """Rotates the hue of colours, float32 [batch, H, W, 3] from 0, by turns, float32 [batch].

    Each pixel stays within its own smallest and largest value.
    """
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
