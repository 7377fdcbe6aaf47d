"""Stages of images and labels: one_hot; mixup and cutmix, which mix each image with the next one of the batch, or the
last with the first. With no other stage does the result for an example depend on others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from tfhet.extras import tensorflow as tf
from tfhet.source import ArraySpec
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Array, Positive, Stage, Within


@register("one_hot")
class OneHot(Stage):
    """Turns class numbers into float32 [batch, classes]: 1 at the class and 0 elsewhere. Images stay unchanged.

    A label that is not from 0 to classes - 1 raises an error when it is read.
    """

    classes: Annotated[int, Within(2)] = 10
    """Number of classes, from 2."""
    smoothing: Annotated[float, Within(0, 1, below=True)] = 0.0
    """Probability that is spread evenly over all classes (Szegedy et al., arXiv:1512.00567). From 0 to below 1."""

    takes: ClassVar[tuple[str, ...]] = ("encoded", "ragged", "images")
    commutes_with_rescale: ClassVar[bool] = True
    relabels: ClassVar[bool] = True

    def label_spec(self, spec: ArraySpec) -> ArraySpec:
        if not spec.is_integer or len(spec.shape) != 1:
            self.refuse(f"needs class numbers, integers [batch], not {spec}")
        return ArraySpec((None, self.classes), "float32")

    def labels(self, labels: Array, parameters: Mapping[str, Array]) -> Array:
        even = self.smoothing / self.classes
        if isinstance(labels, np.ndarray):
            if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1:
                self.refuse(f"needs class numbers, integers [batch], not {labels.dtype} {list(labels.shape)}")
            if wrong := labels[(labels < 0) | (labels >= self.classes)].tolist():
                self.refuse(f"a label is not from 0 to {self.classes - 1}: {wrong[:16]}")
            rows = np.full((self.classes, self.classes), even, np.float32)
            np.fill_diagonal(rows, 1.0 - self.smoothing + even)
            return rows[labels]
        numbers = tf.cast(labels, tf.int64)
        fits = tf.reduce_all((numbers >= 0) & (numbers < self.classes))
        message = f"stage {self.name}: a label is not from 0 to {self.classes - 1}"
        # tf.one_hot would make a row of zeros of it.
        with tf.control_dependencies([tf.debugging.Assert(fits, [message, numbers], summarize=16)]):
            return tf.one_hot(numbers, self.classes, on_value=1.0 - self.smoothing + even, off_value=even)


SHARES = 4096
"""Number of different shares, all equally likely; a power of 2, so that products with it are exact."""


class WithPartner(Stage):
    """Draws `share`, the part of the partner in each label: float32 [batch]."""

    commutes_with_rescale: ClassVar[bool] = True
    relabels: ClassVar[bool] = True

    alpha: float

    def config(self) -> dict[str, Any]:
        return {"shares": tuple(quantiles(self.alpha).tolist())}

    def label_spec(self, spec: ArraySpec) -> ArraySpec:
        if "float" not in spec.dtype:
            self.refuse(f"cannot mix labels of {spec.dtype}: put one_hot(classes) before it")
        return spec

    def labels(self, labels: Array, parameters: Mapping[str, Array]) -> Array:
        share = parameters["share"]
        if isinstance(labels, np.ndarray):
            if not np.issubdtype(labels.dtype, np.floating):
                self.refuse(f"cannot mix labels of {labels.dtype}: put one_hot(classes) before it")
            return mixed(labels, partner(labels), share.astype(labels.dtype))
        return mixed(labels, partner(labels), tf.cast(share, labels.dtype))


def partner(values: Array) -> Array:
    """Returns for each row of [batch, ...] the next one, and for the last the first."""
    if isinstance(values, np.ndarray):
        return np.roll(values, -1, axis=0)
    return tf.concat([values[1:], values[:1]], axis=0)


def mixed(own: Array, other: Array, share: Array) -> Array:
    """Returns (1 - share) * own + share * other. own, other: float [batch, ...]. share: [batch] of the same dtype."""
    # Exactly `own` where both are the same.
    return own + share[(slice(None), *[None] * (len(own.shape) - 1))] * (other - own)


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


@register("mixup")
class Mixup(WithPartner):
    """Computes (1 - share) * image + share * next image of the batch, and mixes the labels alike (Zhang et al.,
    arXiv:1710.09412).

    Images are uint8 (rounded) or float32 of any range; the dtype stays. Labels must be float: put `one_hot(classes)`
    before. The result depends on the batch, unlike other stages except `cutmix`; a batch of one image stays unchanged.

    Draws `share`, the part of the next image: float32 [batch].
    """

    random: ClassVar[bool] = True

    alpha: Positive = 0.2
    """Parameter of Beta(alpha, alpha), which gives shares mostly near 0 or 1 below 1, near 0.5 above 1. Positive."""


@register("cutmix")
class Cutmix(WithPartner):
    """Pastes a rectangle of the next image of the batch at the same place, and mixes the labels by its share of the
    pixels (Yun et al., arXiv:1905.04899).

    The rectangle has the proportions of the image, a random area and any pixel as its centre; it is cut at the edges.
    Images are uint8 or float32 of any range; the dtype stays. Labels must be float: put `one_hot(classes)` before. The
    result depends on the batch, unlike other stages except `mixup`; a batch of one image stays unchanged.

    Draws `top`, `bottom`, `left`, `right` of the rectangle, int32 [batch] in pixels, bottom and right just outside,
    and its `share` of all pixels, float32 [batch].
    """

    random: ClassVar[bool] = True

    alpha: Positive = 1.0
    """Parameter of Beta(alpha, alpha), from which the area is drawn as a fraction of the image's. Positive."""

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.known_size(spec)
        return spec
