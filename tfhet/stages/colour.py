"""Stages that change the colours of images: random_hue, random_saturation, grayscale and color_jitter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.levels import FullRange, Statistics
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import PositiveOrZero, Stage, Within


@register("random_hue")
class RandomHue(FullRange):
    """Adds a uniform number to the hue of HSV, as `tf.image.random_hue` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay unchanged.
    """

    delta: Annotated[float, Within(0, 0.5)] = 0.1
    """Maximum rotation either way, in turns of the colour wheel: 1/3 makes red green. From 0 to 0.5."""

    of_colours: ClassVar[bool] = True

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `hue`, in turns, positive from red to green to blue: float32 [batch]."""
        return {"hue": randomness.uniform(keys, 0, -self.delta, self.delta)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return images if images.shape[3] == 1 else mixed(images, turns=parameters["hue"])


def mixed(
    images: tf.Tensor,
    matrices: tf.Tensor | None = None,
    offsets: tf.Tensor | None = None,
    turns: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the images after a linear mix of colours and a rotation of the hue; either may be omitted.
    images: uint8 in 0..255 or float32 in 0..1, [batch, H, W, 3]; results are clipped, and rounded for uint8. matrices:
    float32 [1 or batch, 3, 3], multiplied with each colour (a row). offsets: float32 [1 or batch, 3], added, in the
    images' units. turns: float32 [batch], the rotation of the hue after clipping."""
    if (ops := native.ops("colour")) is not None:
        if matrices is None:
            matrices, offsets = tf.zeros([0, 3, 3]), tf.zeros([0, 3])
        elif offsets is None:
            offsets = tf.zeros([tf.shape(matrices)[0], 3])
        result = ops.tfhet_mix(images, matrices, offsets, tf.zeros([0]) if turns is None else turns)
        return native.shaped(result, images.shape)
    values, shape = tf.cast(images, tf.float32), tf.shape(images)
    if matrices is not None:
        pixels = tf.matmul(tf.reshape(values, [-1, shape[1] * shape[2], 3]), matrices)
        values = tf.reshape(pixels if offsets is None else pixels + offsets[:, tf.newaxis], shape)
    if turns is not None:
        if matrices is not None:
            values = tf.clip_by_value(values, 0.0, levels.FULL[images.dtype.name])
        hue, saturation, brightest = tf.unstack(tf.image.rgb_to_hsv(values), axis=3)
        hue = tf.math.floormod(hue + turns[:, tf.newaxis, tf.newaxis], 1.0)
        values = tf.image.hsv_to_rgb(tf.stack([hue, saturation, brightest], axis=3))
    return native.shaped(levels.restored(values, images.dtype), images.shape)


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

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.shape[3] == 1:
            return images if self.channels == 1 else tf.tile(images, [1, 1, 1, 3])
        if (ops := native.ops("colour")) is not None:
            return native.shaped(ops.tfhet_grey(images, channels=self.channels), [*images.shape[:3], self.channels])
        weights = tf.constant([[weight] * self.channels for weight in levels.LUMA])
        if images.dtype.is_floating:
            return tf.tensordot(images, weights / 65536.0, 1)
        sums = tf.tensordot(tf.cast(images, tf.float32), weights, 1)
        return tf.cast((sums + 32768.0) * (1.0 / 65536.0), images.dtype)


@register("random_saturation")
class RandomSaturation(FullRange):
    """Multiplies the saturation of HSV by a uniform factor, up to 1, as `tf.image.random_saturation` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay unchanged. `color_jitter`
    blends with the grey image instead.
    """

    lower: PositiveOrZero = 0.5
    """Smallest factor; 0 removes all colour, 1 changes nothing. From 0."""
    upper: PositiveOrZero = 1.5
    """Largest factor. From `lower`."""

    ordered: ClassVar[tuple[tuple[str, str], ...]] = (("lower", "upper"),)
    of_colours: ClassVar[bool] = True

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `saturation`, the factor: float32 [batch]."""
        return {"saturation": randomness.uniform(keys, 0, self.lower, self.upper)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.shape[3] == 1:
            return images
        factors = parameters["saturation"]
        if (ops := native.ops("colour")) is not None:
            return native.shaped(ops.tfhet_saturation(images, factors), images.shape)
        # Saturation is (most - least) / most: distances from the largest value grow until the smallest value is 0.
        values = tf.cast(images, tf.float32)
        most, least = (reduce(values, axis=3, keepdims=True) for reduce in (tf.reduce_max, tf.reduce_min))
        factor = tf.minimum(tf.reshape(factors, [-1, 1, 1, 1]), most / tf.maximum(most - least, 1e-9))
        return levels.restored(most - (most - values) * factor, images.dtype)


@register("color_jitter")
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

    of_colours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any((self.brightness, self.contrast, self.saturation, self.hue)):
            self.refuse("all four are 0: omit the stage")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `brightness`, `contrast`, `saturation` (factors), `hue` (turns), those above 0: float32 [batch]."""
        drawn = {}
        for draw, name in enumerate(("brightness", "contrast", "saturation")):
            if (most := getattr(self, name)) > 0.0:
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
            line = Line.of(1.0 if gain is None else gain, 0.0 if added is None else added, 0.0, full, per_image=True)
            return apply_line(images, line, images.dtype)
        offsets = None if added is None else tf.repeat(added[:, tf.newaxis], 3, axis=1)
        return mixed(images, matrices, offsets, parameters.get("hue"))
