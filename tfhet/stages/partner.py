"""Mixes each image with its partner: the next one of its batch, or the first one for the last.

Only then does the result for an example depend on others. All random numbers derive from the example's own key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import randomness
from tfhet.stages.stage import Stage

SHARES = 4096
"""Number of different shares, all equally likely; a power of 2, so that products with it are exact."""

SIDES = ("top", "bottom", "left", "right")


class WithPartner(Stage):
    """Draws `share`, the part of the partner in each label: float32 [batch]."""

    random: ClassVar[bool] = True
    commutes_with_rescale: ClassVar[bool] = True
    relabels: ClassVar[bool] = True

    def label_spec(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        if not spec.dtype.is_floating:
            self.refuse(f"cannot mix labels of {spec.dtype.name}: put one_hot(classes) before it")
        return spec

    def labels(self, labels: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return mixed(labels, partner(labels), tf.cast(parameters["share"], labels.dtype))


def blended(images: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
    """Blends images, uint8 or float32 [batch, H, W, C], with shares, float32 [batch], of the next image."""
    ops = native.ops("partner")
    if ops is not None:
        return native.shaped(ops.tfhet_blend(images, shares), images.shape)
    values = tf.cast(images, tf.float32)
    result = mixed(values, partner(values), shares)
    return result if images.dtype.is_floating else tf.cast(result + 0.5, images.dtype)


def pasted(images: tf.Tensor, rectangles: tf.Tensor) -> tf.Tensor:
    """Returns the images, each with a rectangle of the next image.

    images: uint8 or float32 [batch, H, W, C]; without the compiled op float32 must be finite. rectangles: int32
    [batch, 4], in the order of SIDES, within the images.
    """
    ops = native.ops("partner")
    if ops is not None:
        return native.shaped(ops.tfhet_paste(images, rectangles), images.shape)
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
    return native.shaped(tf.reshape(kept, shape), images.shape)


def partner(values: tf.Tensor) -> tf.Tensor:
    """Returns for each row of [batch, ...] the next one, and for the last the first."""
    return tf.concat([values[1:], values[:1]], axis=0)


def mixed(own: tf.Tensor, other: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Returns (1 - share) * own + share * other. own, other: float [batch, ...]. share: [batch] of the same dtype."""
    # Rows as lines: the share is broadcast along them. Exactly `own` where both are the same.
    shape = tf.shape(own)
    lines, others = (tf.reshape(values, [shape[0], tf.reduce_prod(shape[1:])]) for values in (own, other))
    return native.shaped(tf.reshape(lines + share[:, tf.newaxis] * (others - lines), shape), own.shape)


def beta(keys: tf.Tensor, draw: int, alpha: float) -> tf.Tensor:
    """Returns float32 [batch] from Beta(alpha, alpha), by its quantiles. keys: uint64 [batch]."""
    # From a table: functions like tf.exp round differently at the end of a batch than within it.
    at = tf.cast(randomness.uniform(keys, draw, 0.0, SHARES), tf.int32)
    return tf.gather(tf.constant(quantiles(alpha), tf.float32), at)


def quantiles(alpha: float) -> np.ndarray:
    """Returns float64 [SHARES]: the quantiles of Beta(alpha, alpha) at 1/2, 3/2, 5/2, ... SHARES-ths."""
    grid = np.linspace(0.0, 1.0, 1 << 17)
    if alpha < 1.0:
        # In t = x**alpha the density has no pole at 0: (1 - x)**(alpha - 1) up to a factor.
        points = 0.5 * grid ** (1.0 / alpha)
        steps, density = 0.5**alpha * grid, (1.0 - points) ** (alpha - 1.0)
    else:
        # Not where it vanishes: 40 standard deviations around the middle, or all of it.
        low = max(0.0, 0.5 - 40.0 * 0.5 / np.sqrt(2.0 * alpha + 1.0))
        points = steps = low + (0.5 - low) * grid
        density = (4.0 * points * (1.0 - points)) ** (alpha - 1.0)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0 * np.diff(steps))])
    wanted = (np.arange(SHARES // 2) + 0.5) / SHARES
    found = np.interp(wanted, below * (0.5 / below[-1]), steps)
    lower = 0.5 * (found / 0.5**alpha) ** (1.0 / alpha) if alpha < 1.0 else found
    return np.concatenate([lower, 1.0 - lower[::-1]])
