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
        # A square's maximum is the maximum over rows of the maximum over columns: 2 passes instead of size**2.
        pick = tf.maximum if self.largest else tf.minimum
        before = (self.size - 1) // 2
        around = [before, self.size - 1 - before]
        neutral = images.dtype.min if self.largest else images.dtype.max
        result = tf.pad(images, [[0, 0], around, around, [0, 0]], constant_values=neutral)
        for axis in (1, 2):
            # The maximum over 2w neighbours is the maximum of two maxima over w: log2(size) steps.
            head, window = (slice(None),) * axis, 1
            while window < self.size:
                step = min(window, self.size - window)
                result = pick(result[(*head, slice(None, -step))], result[(*head, slice(step, None))])
                window += step
        return result


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


PADDINGS = {"CONSTANT": "constant", "REFLECT": "reflect", "SYMMETRIC": "symmetric"}
"""Names of paddings in tf.pad, and the same in numpy."""

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
    """`own` (a compiled op, else matrix products), `addons` (tensorflow_addons), or `auto`, which is `own`."""
    padding: Annotated[str, tuple(PADDINGS)] = "REFLECT"
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
            return self._by_matrices(images)
        weights = self.kept_weights().tolist()
        blurred = ops.tfhet_separable(images, rows=weights, columns=weights, padding=self.padding, addend=CUT_MARGIN)
        return native.shaped(blurred, images.shape)

    def _by_matrices(self, images: tf.Tensor) -> tf.Tensor:
        _, height, width, channels = images.shape
        rows = self.matrix(height)
        columns = np.kron(self.matrix(width).T, np.eye(channels, dtype=np.float32))
        lines = tf.reshape(tf.cast(images, tf.float32), [-1, width * channels])
        # Two matrix products: one large one along the width, with the channels as a block diagonal, and one along the
        # height for each image. 5 us of CPU for a 32x32 RGB image (TF 2.15.1, batch 256); the addon's depthwise
        # convolution takes 70 with oneDNN, and was seen to take 2900 on an older machine.
        across = tf.reshape(tf.matmul(lines, tf.constant(columns)), [-1, height, width * channels])
        blurred = tf.reshape(tf.matmul(tf.constant(rows), across), [-1, height, width, channels])
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

    def matrix(self, length: int) -> np.ndarray:
        """Returns float32 [length, length], which blurs a line of pixels with its padding folded in."""
        before = (self.size - 1) // 2
        around = (before, self.size - 1 - before)
        # A row for each pixel of the padded line, with a 1 at the pixel of the line that it repeats.
        reached = np.pad(np.eye(length), (around, (0, 0)), mode=PADDINGS[self.padding])  # type: ignore[call-overload]
        parts = (weight * reached[tap : tap + length] for tap, weight in enumerate(self.weights()))
        return sum(parts, np.zeros((length, length))).astype(np.float32)


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
    # In lines of width * channels: over pixels of 3 values each, everything takes longer.
    shape, channels = tf.shape(images), images.shape[3]
    lines = tf.cast(tf.reshape(images, [shape[0], shape[1], shape[2] * channels]), tf.float32)
    rows = lines[:, :-2] + lines[:, 1:-1] + lines[:, 2:]
    box = rows[:, :, : -2 * channels] + rows[:, :, channels:-channels] + rows[:, :, 2 * channels :]
    # smooth(x) - x = (box + 4 x) / 13 - x, on all pixels but the outermost.
    softer = (box - 9.0 * lines[:, 1:-1, channels:-channels]) * softenings[:, tf.newaxis, tf.newaxis]
    result = levels.restored(lines + tf.pad(softer, [[0, 0], [1, 1], [channels, channels]]), images.dtype)
    return native.shaped(tf.reshape(result, shape), images.shape)
