"""Changes brightness, contrast, saturation and hue of images at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet.stages import levels, randomness
from tfhet.stages.colour import mixed
from tfhet.stages.levels import FullRange
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import PositiveOrZero, Within
from tfhet.stages.statistics import Statistics


@register("color_jitter")
@dataclass(frozen=True)
class ColorJitter(FullRange):
    """Changes the four as torchvision's ColorJitter and Pillow's ImageEnhance do, always in this order:

    1. brightness: x -> factor * x
    2. contrast: a blend of x and the mean of its grey image, as one level
    3. saturation: a blend of x and its grey image
    4. hue: a rotation of the colour wheel

    The first three are one affine map of the colours. Values are clipped before the hue and rounded at the end. Images
    are uint8 in 0..255 or float32 in 0..1; the dtype stays. Saturation and hue leave images of one channel unchanged.
    """

    brightness: PositiveOrZero = 0.4
    """Range of the factor: from 1 - brightness (at least 0) to 1 + brightness. From 0, which omits the step."""
    contrast: PositiveOrZero = 0.4
    """Range of the image's share, as for brightness; the mean grey has the rest. From 0, which omits the step."""
    saturation: PositiveOrZero = 0.4
    """Range of the image's share, as for contrast; its grey image has the rest. From 0, which omits the step."""
    hue: Annotated[float, Within(0, 0.5)] = 0.0
    """Maximum rotation either way, in turns of the colour wheel. From 0, which omits the step, to 0.5."""

    random: ClassVar[bool] = True
    of_colours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any((self.brightness, self.contrast, self.saturation, self.hue)):
            self.refuse("all four are 0: omit the stage")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `brightness`, `contrast`, `saturation` (factors), `hue` (turns), those above 0: float32 [batch]."""
        drawn = {}
        for draw, name in enumerate(("brightness", "contrast", "saturation")):
            most = getattr(self, name)
            if most > 0.0:
                drawn[name] = randomness.uniform(keys, draw, max(0.0, 1.0 - most), 1.0 + most)
        if self.hue > 0.0:
            drawn["hue"] = randomness.uniform(keys, 3, -self.hue, self.hue)
        return drawn

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        full, colours = levels.FULL[images.dtype.name], images.shape[3] == 3
        grey = tf.constant(levels.LUMA if colours else [65536.0]) / 65536.0
        gain, added = parameters.get("brightness"), None
        if "contrast" in parameters:
            contrast = parameters["contrast"]
            mean = tf.linalg.matvec(Statistics.of(images).mean, grey)
            added = (1.0 - contrast) * (mean if gain is None else gain * mean)
            gain = contrast if gain is None else gain * contrast
        matrices = None if gain is None else gain[:, tf.newaxis, tf.newaxis] * tf.eye(3)
        if colours and "saturation" in parameters:
            own = parameters["saturation"][:, tf.newaxis, tf.newaxis]
            matrices = own * tf.eye(3) + (1.0 - own) * grey[:, tf.newaxis]
            matrices = matrices if gain is None else matrices * gain[:, tf.newaxis, tf.newaxis]
        elif not colours or "hue" not in parameters:
            line = Line.per_image(1.0 if gain is None else gain, 0.0 if added is None else added, 0.0, full)
            return apply_line(images, line, images.dtype)
        offsets = None if added is None else tf.repeat(added[:, tf.newaxis], 3, axis=1)
        return mixed(images, matrices, offsets, parameters.get("hue"))
