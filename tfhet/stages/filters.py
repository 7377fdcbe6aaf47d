"""Stages that make each pixel of those around it: dilate, erode, gaussian_blur and sharpen."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

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


@register("gaussian_blur")
class GaussianBlur(Stage):
    """Blurs with a sampled, normalised Gaussian; uint8 results are truncated, not rounded, as in Addons."""

    size: Count = 11
    """Side of the filter in pixels, from 1."""
    sigma: Positive = 0.8
    """Standard deviation in pixels. Positive."""
    backend: Annotated[str, ("auto", "own", "addons")] = "auto"
    """`own` (the compiled core), `addons` (tensorflow_addons), or `auto`, which is `own`."""
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

    @property
    def is_compiled(self) -> bool:
        return self.backend != "addons" and super().is_compiled

    def apply(self, images: Any, parameters: Mapping[str, Any]) -> Any:
        if self.backend != "addons":
            return super().apply(images, parameters)
        import tensorflow_addons as tfa

        return tfa.image.gaussian_filter2d(images, self.size, self.sigma, padding=self.padding)


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
