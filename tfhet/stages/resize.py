"""Stages that bring images to one size: resize, resized_center_crop and random_resized_crop."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from tfhet.stages.projection import Geometric
from tfhet.stages.registry import register
from tfhet.stages.resampling import Window
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count, Positive, Within

METHODS = ("area", "bicubic", "bilinear", "nearest")
OVERSHOOT = (1.25**2 - 1.0) / 2.0
"""Maximum distance of a bicubic value from the range, as a fraction of it: halfway between two pixels the weights of
the Keys cubic (a = -0.5) along one axis are -1/16, 9/16, 9/16, -1/16, whose magnitudes add up to 1.25."""


@register("resize")
class Resize(Window, Geometric):
    """Resizes images as `tf.image.resize` does, without keeping the aspect; uint8 results are rounded.

    After `decode` the method has to be bilinear.
    """

    height: Count = 224
    """Rows of the result, from 1."""
    width: Count = 224
    """Columns of the result, from 1."""
    method: Annotated[str, METHODS] = "bilinear"
    """bilinear, nearest, area (the mean of the covered pixels, best for shrinking) or bicubic."""
    antialias: bool = False
    """Whether each pixel of a shrunken image is a weighted mean of the pixels that it covers; for bilinear only."""

    keeps_range: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.antialias and self.method != "bilinear":
            self.refuse(f"antialias goes with method bilinear, not {self.method}")

    @property
    def commutes_with_rescale(self) -> bool:
        # Bicubic values overshoot: uint8 cuts them off, float32 would keep them.
        return self.method != "bicubic"

    def spec(self, spec: ImageSpec) -> ImageSpec:
        """Returns the spec of the new size; `bicubic` widens the range of float32, as it overshoots at edges."""
        resized = super().spec(spec)
        if spec.ragged and self.method != "bilinear":
            self.refuse(f"after decode the method must be bilinear, not {self.method}")
        if self.method != "bicubic" or spec.dtype == "uint8":
            return resized
        beyond = OVERSHOOT * (spec.high - spec.low)
        return replace(resized, low=spec.low - beyond, high=spec.high + beyond)

    @property
    def moves(self) -> bool:
        return self.method == "bilinear" and not self.antialias

    @property
    def fill(self) -> tuple[str, float]:
        """Reaches at most half a pixel beyond the edge, where a mirrored image equals its edge."""
        return "reflect", 0.0

    def size(self, spec: ImageSpec) -> tuple[int, int]:
        return self.height, self.width

    @property
    def bilinear(self) -> bool:
        return self.method == "bilinear"


@register("resized_center_crop")
class ResizedCenterCrop(Window):
    """Does torchvision's Resize(shorter) and CenterCrop((height, width)), to the pixel, in one bilinear sampling.

    Only the pixels that the crop shows are sampled; uint8 results are rounded once.
    """

    height: int = 224
    """Rows of the result, from 1 to `shorter`."""
    width: int = 224
    """Columns of the result, from 1 to `shorter`."""
    shorter: int = 256
    """Length of the resized image's shorter side."""
    antialias: bool = False
    """Whether a pixel of a shrunken image is a mean of the pixels that it covers, torchvision's default."""

    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= min(self.height, self.width) <= max(self.height, self.width) <= self.shorter:
            self.refuse(f"height and width are 1 to shorter, {self.shorter}, not {self.height}, {self.width}")


@register("random_resized_crop")
class RandomResizedCrop(Window):
    """Cuts out a part of random area and aspect and resizes it, as torchvision's RandomResizedCrop.

    The sampling is bilinear between centres of pixels, and the part repeats its own edge. uint8 results are rounded.
    Ten boxes are drawn at once and the first that fits is taken, so the result has the distribution of torchvision's
    loop, which stops at the first that fits. If none fits, the crop is torchvision's central crop.

    Draws `box`, int32 [batch, 4]: the part's first row, first column, rows and columns in the image.
    """

    random: ClassVar[bool] = True

    height: Count = 224
    """Rows of the result, from 1."""
    width: Count = 224
    """Columns of the result, from 1."""
    scale_low: Positive = 0.08
    """Minimum area of the part, as a fraction of the image's. Above 0."""
    scale_high: Annotated[float, Within(0, 1, above=True)] = 1.0
    """Maximum area of the part. From scale_low to 1."""
    ratio_low: Positive = 3 / 4
    """Minimum width / height of the part, whose logarithm is uniform. Above 0."""
    ratio_high: Positive = 4 / 3
    """Maximum width / height of the part. From ratio_low."""
    antialias: bool = False
    """Whether each pixel of a shrunken part is a weighted mean of the pixels that it covers, torchvision's default."""

    commutes_with_rescale: ClassVar[bool] = True
    ordered: ClassVar[tuple[tuple[str, str], ...]] = (("scale_low", "scale_high"), ("ratio_low", "ratio_high"))

    def spec(self, spec: ImageSpec) -> ImageSpec:
        result = super().spec(spec)
        if not spec.ragged:
            self.known_size(spec)
        return result
