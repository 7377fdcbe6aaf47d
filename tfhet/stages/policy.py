"""RandAugment and TrivialAugment: for each image, one of fourteen operations in one of 31 strengths.

The operations and their strengths are as in torchvision 0.15 and later (`RandAugment`, `TrivialAugmentWide`). Two
things differ: moved images are sampled bilinearly (torchvision's default is the nearest pixel), and levels are rounded
where Pillow cuts fractions off.

| Operation | Strength | RandAugment | TrivialAugment |
| --- | --- | --- | --- |
| identity | | | |
| shear_x, shear_y | columns per row, rows per column, about the upper left corner; either way | 0 to 0.3 | 0 to 0.99 |
| translate_x, translate_y | whole pixels to the right, down; either way | 0 to 150/331 of the size | 0 to 32 |
| rotate | degrees counter-clockwise; either way | 0 to 30 | 0 to 135 |
| brightness, contrast, color, sharpness | the factor is 1 + strength; either way | 0 to 0.9 | 0 to 0.99 |
| posterize | bits that stay | 8 to 4 | 8 to 2 |
| solarize | the threshold | 255 to 0 | 255 to 0 |
| autocontrast, equalize | | | |
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tfhet.stages.levels import FullRange
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count, Within

# fmt: off
OPERATIONS = (
    "identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "contrast", "color",
    "sharpness", "posterize", "solarize", "autocontrast", "equalize",
)
# fmt: on
"""Names of the operations. The number of an operation is its place here."""
BINS = 31
"""Number of strengths."""


class Policy(FullRange):
    """Draws `num_layers` operations for each image, one after the other; each works only on the images that drew it.

    Draws `operation` (int32, place in OPERATIONS), `strength` (float32, see above): [batch, num_layers].
    """

    random: ClassVar[bool] = True

    of_colours: ClassVar[bool] = True
    shortest: ClassVar[int] = 2

    num_layers: int = 1
    """Number of operations that each image meets."""
    magnitude: int | None = None
    """Place of the strength of all images, from 0 to BINS - 1; None has it drawn for each image."""
    fill_value: float
    """Fill beyond the edge of a moved image, in the units of the images."""

    def spec(self, spec: ImageSpec) -> ImageSpec:
        super().spec(spec)
        self.check_value("fill_value", self.fill_value, spec)
        return spec


@register("randaugment")
class RandAugment(Policy):
    """Applies `num_layers` operations to each image, each drawn from fourteen (Cubuk et al., arXiv:1909.13719).

    It works as torchvision's `RandAugment`; `tfhet.stages.policy` lists the operations. Images have 1 or 3 channels and
    are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first; the dtype stays.
    """

    num_layers: Count = 2
    """Number of operations for each image. From 1."""
    magnitude: Annotated[int, Within(0, BINS - 1)] = 9
    """Strength of the operations, from 0 (most do nothing) to 30. Autocontrast and equalize have none."""
    fill_value: float = 0.0


@register("trivialaugment")
class TrivialAugment(Policy):
    """Applies one operation to each image, drawn from fourteen, with one of 31 strengths (Müller and Hutter,
    arXiv:2103.10158, with the wide ranges).

    It works as torchvision's `TrivialAugmentWide`; `tfhet.stages.policy` lists the operations. Images have 1 or 3
    channels and are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first; the dtype stays.
    """

    fill_value: float = 0.0
