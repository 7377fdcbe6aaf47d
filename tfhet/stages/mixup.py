"""Blends each image with another one of its batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from tfhet import native
from tfhet.stages.partner import WithPartner, beta, mixed, partner
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec


@register("mixup")
@dataclass(frozen=True)
class Mixup(WithPartner):
    """Computes (1 - share) * image + share * next image of the batch, and mixes the labels alike (Zhang et al.,
    arXiv:1710.09412).

    Images are uint8 (rounded) or float32 of any range; the dtype stays. Labels must be float: put `one_hot(classes)`
    before. The result depends on the batch, as only that of `cutmix` does too; a batch of one image stays unchanged.
    """

    alpha: float = 0.2
    """Parameter of Beta(alpha, alpha), which gives shares mostly near 0 or 1 below 1, near 0.5 above 1. Positive."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.alpha < math.inf:
            self.refuse(f"alpha is positive, not {self.alpha}")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `share`, the part of the next image: float32 [batch]."""
        return {"share": beta(keys, 0, self.alpha)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return blended(images, parameters["share"])


def blended(images: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
    """Blends images, uint8 or float32 [batch, H, W, C], with shares, float32 [batch], of the next image."""
    ops = native.ops("partner")
    if ops is None:
        return plain_blended(images, shares)
    result = ops.tfhet_blend(images, shares)
    result.set_shape(images.shape)
    return result


def plain_blended(images: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
    """Does the same as `blended` by TensorFlow's own operations."""
    values = tf.cast(images, tf.float32)
    result = mixed(values, partner(values), shares)
    return result if images.dtype.is_floating else tf.cast(result + 0.5, images.dtype)
