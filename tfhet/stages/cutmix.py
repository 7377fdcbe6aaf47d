"""Pastes a rectangle of another image of the batch into each image."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import randomness
from tfhet.stages.partner import SHARES, WithPartner, partner, quantiles
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec

SIDES = ("top", "bottom", "left", "right")


@register("cutmix")
@dataclass(frozen=True)
class Cutmix(WithPartner):
    """Pastes a rectangle of the next image of the batch at the same place, and mixes the labels by its share of the
    pixels (Yun et al., arXiv:1905.04899).

    The rectangle has the proportions of the image, a random area and any pixel as its centre; it is cut at the edges.
    Images are uint8 or float32 of any range; the dtype stays. Labels must be float: put `one_hot(classes)` before. The
    result depends on the batch, as only that of `mixup` does too; a batch of one image stays unchanged.
    """

    alpha: float = 1.0
    """Parameter of Beta(alpha, alpha), from which the area is drawn as a fraction of the image's. Positive."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.alpha < math.inf:
            self.refuse(f"alpha is positive, not {self.alpha}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.height is None or spec.width is None:
            self.refuse("height and width of the images must be known: resize them before")
        return spec

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `top`, `bottom`, `left`, `right` of the rectangle, and its `share` of all pixels.

        The sides are int32 [batch] in pixels; bottom and right lie just outside. `share` is float32 [batch].
        """
        assert spec.height is not None and spec.width is not None
        at = tf.cast(randomness.uniform(keys, 0, 0.0, SHARES), tf.int32)
        sides = np.sqrt(quantiles(self.alpha))
        rectangle, lengths = {}, []
        for draw, (begin, end, length) in enumerate((("top", "bottom", spec.height), ("left", "right", spec.width))):
            side = tf.gather(tf.constant(np.int32(sides * length)), at)
            centre = tf.cast(tf.minimum(randomness.uniform(keys, 1 + draw) * length, length - 1.0), tf.int32)
            rectangle[begin] = tf.maximum(centre - side // 2, 0)
            rectangle[end] = tf.minimum(centre - side // 2 + side, length)
            lengths.append(rectangle[end] - rectangle[begin])
        pixels = tf.cast(lengths[0] * lengths[1], tf.float32)
        return {**rectangle, "share": pixels * (1.0 / (spec.height * spec.width))}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return pasted(images, tf.stack([parameters[name] for name in SIDES], axis=1))


def pasted(images: tf.Tensor, rectangles: tf.Tensor) -> tf.Tensor:
    """Returns the images, each with a rectangle of the next image.

    images: uint8 or float32 [batch, H, W, C]. rectangles: int32 [batch, 4], in the order of SIDES, within the images.
    """
    ops = native.ops("partner")
    if ops is None:
        return plain_pasted(images, rectangles)
    result = ops.tfhet_paste(images, rectangles)
    result.set_shape(images.shape)
    return result


def plain_pasted(images: tf.Tensor, rectangles: tf.Tensor) -> tf.Tensor:
    """Does the same as `pasted` by TensorFlow's own operations; float32 images must be finite."""
    shape = tf.shape(images)
    rows, columns = tf.range(shape[1]), tf.range(shape[2])
    top, bottom, left, right = tf.split(rectangles, 4, axis=1)
    in_rows = tf.cast((rows >= top) & (rows < bottom), images.dtype)
    in_columns = tf.cast((columns >= left) & (columns < right), images.dtype)
    # A mask over lines of width * channels, multiplied: a tf.where, broadcast over channels, takes ten times as long.
    mask = in_rows[:, :, tf.newaxis] * tf.repeat(in_columns, shape[3], axis=1)[:, tf.newaxis, :]
    own, other = (tf.reshape(v, [shape[0], shape[1], shape[2] * shape[3]]) for v in (images, partner(images)))
    if images.dtype.is_floating:
        kept = own * (1.0 - mask) + other * mask
    else:
        kept = own + mask * (other - own)  # wraps around, and back
    result = tf.reshape(kept, shape)
    result.set_shape(images.shape)
    return result
