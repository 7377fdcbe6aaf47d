"""Stages that change the colours of images: random_hue, random_saturation, grayscale and color_jitter."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from tfhet.stages import levels
from tfhet.stages.levels import FullRange
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import PositiveOrZero, Stage, Within


@register("random_hue")
class RandomHue(FullRange):
    """Adds a uniform number to the hue of HSV, as `tf.image.random_hue` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay unchanged.

    Draws `hue`, in turns, positive from red to green to blue: float32 [batch].
    """

    random: ClassVar[bool] = True

    delta: Annotated[float, Within(0, 0.5)] = 0.1
    """Maximum rotation either way, in turns of the colour wheel: 1/3 makes red green. From 0 to 0.5."""

    of_colours: ClassVar[bool] = True


@register("grayscale")
class Grayscale(Stage):
    """Computes 0.299 red + 0.587 green + 0.114 blue (ITU-R 601-2), for uint8 bit for bit as Pillow's `convert("L")`.

    Images may have any range; the dtype stays. The weights of `tf.image.rgb_to_grayscale` sum to 0.9999.
    """

    channels: Annotated[int, (1, 3)] = 1
    """Channels of the result: 1, or 3 equal ones."""

    keeps_shape: ClassVar[bool] = False
    commutes_with_rescale: ClassVar[bool] = True

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return replace(levels.grey_or_rgb(self, spec), channels=self.channels)


@register("random_saturation")
class RandomSaturation(FullRange):
    """Multiplies the saturation of HSV by a uniform factor, up to 1, as `tf.image.random_saturation` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay unchanged. `color_jitter`
    blends with the grey image instead.

    Draws `saturation`, the factor: float32 [batch].
    """

    random: ClassVar[bool] = True

    lower: PositiveOrZero = 0.5
    """Smallest factor; 0 removes all colour, 1 changes nothing. From 0."""
    upper: PositiveOrZero = 1.5
    """Largest factor. From `lower`."""

    ordered: ClassVar[tuple[tuple[str, str], ...]] = (("lower", "upper"),)
    of_colours: ClassVar[bool] = True


@register("color_jitter")
class ColorJitter(FullRange):
    """Changes the four as torchvision's ColorJitter and Pillow's ImageEnhance do, always in this order:

    1. brightness: x -> factor * x
    2. contrast: a blend of x and the mean of its grey image, as one level
    3. saturation: a blend of x and its grey image
    4. hue: a rotation of the colour wheel

    The first three are one affine map of the colours. Values are clipped before the hue and rounded at the end. Images
    are uint8 in 0..255 or float32 in 0..1; the dtype stays. Saturation and hue leave images of one channel unchanged.

    Draws `brightness`, `contrast`, `saturation` (factors), `hue` (turns), those above 0: float32 [batch].
    """

    random: ClassVar[bool] = True

    brightness: PositiveOrZero = 0.4
    """Range of the factor: from 1 - brightness (at least 0) to 1 + brightness. From 0, which omits the step."""
    contrast: PositiveOrZero = 0.4
    """Range of the image's share, as for brightness; the mean grey has the rest. From 0, which omits the step."""
    saturation: PositiveOrZero = 0.4
    """Range of the image's share, as for contrast; its grey image has the rest. From 0, which omits the step."""
    hue: Annotated[float, Within(0, 0.5)] = 0.0
    """Maximum rotation either way, in turns of the colour wheel. From 0, which omits the step, to 0.5."""

    of_colours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any((self.brightness, self.contrast, self.saturation, self.hue)):
            self.refuse("all four are 0: omit the stage")
