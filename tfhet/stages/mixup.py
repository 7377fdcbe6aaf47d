"""Stages that mix each image with another one of its batch, and their labels in proportion: mixup and cutmix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfhet.stages import randomness
from tfhet.stages.partner import SHARES, SIDES, WithPartner, beta, blended, pasted, quantiles
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Positive


@register("mixup")
@dataclass(frozen=True)
class Mixup(WithPartner):
    """Computes (1 - share) * image + share * next image of the batch, and mixes the labels alike (Zhang et al.,
    arXiv:1710.09412).

    Images are uint8 (rounded) or float32 of any range; the dtype stays. Labels must be float: put `one_hot(classes)`
    before. The result depends on the batch, as only that of `cutmix` does too; a batch of one image stays unchanged.
    """

    alpha: Positive = 0.2
    """Parameter of Beta(alpha, alpha), which gives shares mostly near 0 or 1 below 1, near 0.5 above 1. Positive."""

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `share`, the part of the next image: float32 [batch]."""
        return {"share": beta(keys, 0, self.alpha)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return blended(images, parameters["share"])


@register("cutmix")
@dataclass(frozen=True)
class Cutmix(WithPartner):
    """Pastes a rectangle of the next image of the batch at the same place, and mixes the labels by its share of the
    pixels (Yun et al., arXiv:1905.04899).

    The rectangle has the proportions of the image, a random area and any pixel as its centre; it is cut at the edges.
    Images are uint8 or float32 of any range; the dtype stays. Labels must be float: put `one_hot(classes)` before. The
    result depends on the batch, as only that of `mixup` does too; a batch of one image stays unchanged.
    """

    alpha: Positive = 1.0
    """Parameter of Beta(alpha, alpha), from which the area is drawn as a fraction of the image's. Positive."""

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
