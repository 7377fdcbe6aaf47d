"""Stages that make each pixel of those around it: dilate, erode, gaussian_blur and sharpen."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import levels
from tfhet.stages.levels import FullRange
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count, Positive, PositiveOrZero, Stage


class Morphology(Stage):
    """Replaces each pixel by an extreme value of a square around it; pixels beyond the edge do not count."""

    largest: ClassVar[bool]
    """Whether it takes the largest value or the smallest."""
    commutes_with_rescale: ClassVar[bool] = True

    size: int
    """Side of the square in pixels, from 1."""

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """An even square has one more pixel below and to the right."""
        if self.size == 1:
            return images
        if (ops := native.ops("morphology")) is not None:
            return native.shaped(ops.tfhet_morphology(images, size=self.size, largest=self.largest), images.shape)
        sign = 1.0 if self.largest else -1.0
        pooled = tf.nn.max_pool2d(sign * tf.cast(images, tf.float32), self.size, 1, "SAME")
        return tf.cast(sign * pooled, images.dtype)


@register("dilate")
class Dilate(Morphology):
    """Replaces each pixel by the maximum of a square around it; the dtype stays.

    It equals `tf.nn.dilation2d` with a filter of zeros, stride 1 and SAME padding.
    """

    size: Count = 3

    largest: ClassVar[bool] = True


@register("erode")
class Erode(Morphology):
    """Replaces each pixel by the minimum of a square around it; any range, and the dtype stays.

    Pixels beyond the edge do not count. It is the negative of `dilate` on the negative image.
    """

    size: Count = 3

    largest: ClassVar[bool] = False


PADDINGS = ("CONSTANT", "REFLECT", "SYMMETRIC")
"""Names of paddings in tf.pad."""

CUT_MARGIN = 2.0**-13
"""Margin that is added before values are truncated to uint8. It is above the rounding error of the sums (5e-5), so that
a plain area keeps its level: without it, and in the addon, about half of the 256 levels become one level darker. Stage
and addon are equal where the exact value is further than the margin from a whole level; elsewhere, about once in 7000
values of noise, the stage has the upper of the two levels. The addon's own last bits depend on CPU and oneDNN."""

NEGLIGIBLE = 2.0**-25
"""Maximum sum of the weights at both ends that are omitted: half of what float32 resolves next to 1."""


@register("gaussian_blur")
class GaussianBlur(Stage):
    """Blurs with a sampled, normalised Gaussian; uint8 results are truncated, not rounded, as in Addons."""

    size: Count = 11
    """Side of the filter in pixels, from 1."""
    sigma: Positive = 0.8
    """Standard deviation in pixels. Positive."""
    backend: Annotated[str, ("auto", "own", "addons")] = "auto"
    """`own` (a compiled op, else convolutions), `addons` (tensorflow_addons), or `auto`, which is `own`."""
    padding: Annotated[str, PADDINGS] = "REFLECT"
    """Padding beyond the edge: REFLECT (the edge once), SYMMETRIC (the edge twice) or CONSTANT (0)."""

    @property
    def commutes_with_rescale(self) -> bool:
        # After a rescale with an offset, 0 would be another level.
        return self.padding != "CONSTANT"

    def spec(self, spec: ImageSpec) -> ImageSpec:
        reach = {"REFLECT": self.size // 2 + 1, "SYMMETRIC": self.size // 2, "CONSTANT": 1}[self.padding]
        for length in self.known_size(spec):
            if length < reach:
                self.refuse(f"a filter of {self.size} needs images of at least {reach} pixels, not {length}")
        if self.backend == "addons" and importlib.util.find_spec("tensorflow_addons") is None:
            self.refuse("tensorflow_addons is not installed: use backend='own', or pip install 'tfhet[addons]'")
        return spec

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if self.backend == "addons":
            import tensorflow_addons as tfa

            return tfa.image.gaussian_filter2d(images, self.size, self.sigma, padding=self.padding)
        if (ops := native.ops("filters")) is None:
            return self._by_convolutions(images)
        weights = self.kept_weights().tolist()
        blurred = ops.tfhet_separable(images, rows=weights, columns=weights, padding=self.padding, addend=CUT_MARGIN)
        return native.shaped(blurred, images.shape)

    def _by_convolutions(self, images: tf.Tensor) -> tf.Tensor:
        before = (self.size - 1) // 2
        around = [before, self.size - 1 - before]
        blurred = tf.pad(tf.cast(images, tf.float32), [[0, 0], around, around, [0, 0]], self.padding)
        for shape in ((self.size, 1, 1, 1), (1, self.size, 1, 1)):
            taps = tf.tile(tf.reshape(tf.constant(self.weights(), tf.float32), shape), [1, 1, images.shape[3], 1])
            blurred = tf.nn.depthwise_conv2d(blurred, taps, [1, 1, 1, 1], "VALID")
        return blurred if images.dtype.is_floating else tf.cast(blurred + CUT_MARGIN, images.dtype)

    def weights(self) -> np.ndarray:
        """Returns float64 [size] with sum 1; for an even size the centre is left of the middle, as in the addon."""
        offsets = np.arange(-self.size // 2 + 1, self.size // 2 + 1)
        weights = np.exp(-(offsets**2) / (2.0 * self.sigma**2))
        return weights / weights.sum()

    def kept_weights(self) -> np.ndarray:
        """Returns the weights with 0 for negligible ones at the ends; the sum is 1."""
        weights = self.weights()
        for end in range((self.size - 1) // 2):
            if weights[: end + 1].sum() + weights[-end - 1 :].sum() >= NEGLIGIBLE:
                break
            weights[[end, -end - 1]] = 0.0
        return weights / weights.sum()


@register("sharpen")
class Sharpen(FullRange):
    """Computes amount * x + (1 - amount) * smooth(x) and clips it, as Pillow's `ImageEnhance.Sharpness` and Addons do.

    smooth(x) is the mean of 3x3 pixels with the centre counted five times; the outermost pixels stay unchanged. Images
    are uint8 in 0..255 or float32 in 0..1; the dtype stays. uint8 results are rounded once, where Pillow and Addons
    also round smooth(x).
    """

    amount: PositiveOrZero = 2.0
    """Weight of the image: 0 is smooth, 1 changes nothing, 2 is sharp. From 0."""

    shortest: ClassVar[int] = 2

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return sharpened(images, tf.constant([self.amount]))


def sharpened(images: tf.Tensor, amounts: tf.Tensor) -> tf.Tensor:
    """Sharpens images, uint8 in 0..255 or float32 in 0..1 [batch, H, W, C], by amounts, float32 [batch] or [1]."""
    softenings = (1.0 - amounts) / 13.0
    if (ops := native.ops("filters")) is not None:
        return native.shaped(ops.tfhet_sharpen(images, softenings), images.shape)
    values = tf.cast(images, tf.float32)
    rows = values[:, :-2] + values[:, 1:-1] + values[:, 2:]
    box = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]
    # smooth(x) - x = (box + 4 x) / 13 - x, on all pixels but the outermost.
    softer = (box - 9.0 * values[:, 1:-1, 1:-1]) * tf.reshape(softenings, [-1, 1, 1, 1])
    return levels.restored(values + tf.pad(softer, [[0, 0], [1, 1], [1, 1], [0, 0]]), images.dtype)
