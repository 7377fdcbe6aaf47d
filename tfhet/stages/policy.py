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

import math
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar

import numpy as np
import tensorflow as tf

from tfhet.stages import levels, projection, randomness
from tfhet.stages.choice import Part, dealt_out
from tfhet.stages.colour import ColorJitter
from tfhet.stages.filters import sharpened
from tfhet.stages.levels import FullRange, lookup
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count, Within
from tfhet.stages.tone import Autocontrast, Equalize

# fmt: off
OPERATIONS = (
    "identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "contrast", "color",
    "sharpness", "posterize", "solarize", "autocontrast", "equalize",
)
# fmt: on
"""Names of the operations. The number of an operation is its place here."""
BINS = 31
"""Number of strengths."""
_MOVES = {name: OPERATIONS.index(name) for name in ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")}
_SIGNED = OPERATIONS[1:10]
_PARTS = (0, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 6, 7, 8)
"""For each operation the place of its part in `Policy._layer`."""

PART_BYTES, PART_IMAGES = 4 << 20, 512
"""Maximum bytes and images of the part of a batch that is processed at once: copies of a part stay in the cache and
reuse memory, which takes 120 us instead of 165 for a 224x224 RGB image in a batch of 128. A batch of images so small
that a part would hold more than PART_IMAGES is processed at once."""


class Policy(FullRange):
    """Draws `num_layers` operations for each image, one after the other; each works only on the images that drew it."""

    of_colours: ClassVar[bool] = True
    shortest: ClassVar[int] = 2
    largest: ClassVar[Mapping[str, float]]
    """Largest strength of each kind of operation: the arguments of `strengths`."""

    num_layers: int = 1
    """Number of operations that each image meets."""
    magnitude: int | None = None
    """Place of the strength of all images, from 0 to BINS - 1; None has it drawn for each image."""
    fill_value: float
    """Fill beyond the edge of a moved image, in the units of the images."""

    def moved_by(self, strength: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Returns a translation in pixels, float32 [batch]. strength: float32 [batch]. length: float32 [], pixels."""
        return strength

    def spec(self, spec: ImageSpec) -> ImageSpec:
        super().spec(spec)
        self.check_value("fill_value", self.fill_value, spec)
        return spec

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `operation` (int32, place in OPERATIONS), `strength` (float32, see above): [batch, num_layers]."""
        table = tf.constant(strengths(**self.largest))
        signed = tf.constant([name in _SIGNED for name in OPERATIONS])
        operations, drawn = [], []
        for layer in range(self.num_layers):
            operation = randomness.below(keys, 3 * layer, len(OPERATIONS))
            place = tf.fill(tf.shape(operation), self.magnitude or 0)
            if self.magnitude is None:
                place = randomness.below(keys, 3 * layer + 1, BINS)
            strength = tf.gather_nd(table, tf.stack([operation, place], axis=1))
            turned = tf.gather(signed, operation) & randomness.bernoulli(keys, 3 * layer + 2)
            operations.append(operation)
            drawn.append(tf.where(turned, -strength, strength))
        return {"operation": tf.stack(operations, axis=1), "strength": tf.stack(drawn, axis=1)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        values = levels.in_levels(images)
        fill = float(round(self.fill_value / levels.FULL[images.dtype.name] * 255.0))
        operation, strength = parameters["operation"], parameters["strength"]

        def layered(begin: tf.Tensor | int, end: tf.Tensor | None) -> tf.Tensor:
            some = values[begin:end]
            for layer in range(self.num_layers):
                some = self._layer(some, operation[begin:end, layer], strength[begin:end, layer], fill)
            return some

        height, width, channels = images.shape[1:]
        together = max(1, PART_BYTES // (height * width * channels)) if height and width else PART_IMAGES
        values = layered(0, None) if together > PART_IMAGES else _by_parts(layered, tf.shape(values)[0], together)
        values.set_shape(images.shape)
        return levels.as_given(values, images.dtype)

    def _layer(self, images: tf.Tensor, operation: tf.Tensor, strength: tf.Tensor, fill: float) -> tf.Tensor:
        """Returns images, uint8 [batch, H, W, C], after an operation, int32 [batch], of a strength, float32 [batch]."""

        def moved(some: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
            transforms = self._transforms(tf.gather(operation, at), tf.gather(strength, at), tf.shape(some))
            return projection.project(some, transforms, "constant", float(fill))

        def jittered(name: str) -> Part:
            return lambda some, at: _JITTER.apply(some, {name: 1.0 + tf.gather(strength, at)})

        parts = [
            lambda some, at: some,
            moved,
            *(jittered(name) for name in ("brightness", "contrast", "saturation")),
            lambda some, at: sharpened(some, 1.0 + tf.gather(strength, at)),
            lambda some, at: lookup(some, _stepped(tf.gather(operation, at), tf.gather(strength, at))),
            lambda some, at: Autocontrast().apply(some, {}),
            lambda some, at: Equalize().apply(some, {}),
        ]
        return dealt_out(images, tf.gather(tf.constant(_PARTS), operation), parts)

    def _transforms(self, operation: tf.Tensor, strength: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
        """Returns transforms, float32 [some, 8]. operation: int32 [some], one of _MOVES. strength: float32 [some]."""
        height, width = tf.cast(shape[1], tf.float32), tf.cast(shape[2], tf.float32)

        def of(name: str) -> tf.Tensor:
            return tf.where(operation == _MOVES[name], strength, 0.0)

        turned = projection.rotation(of("rotate") * (math.pi / 180.0), shape[1], shape[2])
        shear_x, shear_y = of("shear_x"), of("shear_y")
        right = tf.round(self.moved_by(of("translate_x"), width))
        down = tf.round(self.moved_by(of("translate_y"), height))
        zero = tf.zeros_like(strength)
        # About the corner of the upper left pixel, half a pixel from its middle.
        added = [zero, shear_x, 0.5 * shear_x - right, shear_y, zero, 0.5 * shear_y - down, zero, zero]
        return turned + tf.stack(added, axis=1)


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

    largest: ClassVar[Mapping[str, float]] = {"shear": 0.3, "move": 150 / 331, "degrees": 30, "change": 0.9, "bits": 4}

    def moved_by(self, strength: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        return strength * length


@register("trivialaugment")
class TrivialAugment(Policy):
    """Applies one operation to each image, drawn from fourteen, with one of 31 strengths (Müller and Hutter,
    arXiv:2103.10158, with the wide ranges).

    It works as torchvision's `TrivialAugmentWide`; `tfhet.stages.policy` lists the operations. Images have 1 or 3
    channels and are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first; the dtype stays.
    """

    fill_value: float = 0.0

    largest: ClassVar[Mapping[str, float]] = {"shear": 0.99, "move": 32, "degrees": 135, "change": 0.99, "bits": 2}


def _by_parts(work: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], count: tf.Tensor, together: int) -> tf.Tensor:
    """Returns the joined results, [count, ...], of `work` on the images from begin to before end, part by part."""
    parts = tf.maximum(1, (count + together - 1) // together)
    results = tf.TensorArray(tf.uint8, parts, infer_shape=False)
    _, results = tf.while_loop(
        lambda part, results: part < parts,
        lambda part, results: (part + 1, results.write(part, work(part * together, (part + 1) * together))),
        [0, results],
        parallel_iterations=1,
    )
    return results.concat()


_JITTER = ColorJitter()
"""Changes the brightness, contrast or saturation by the factor that is among its parameters."""


def _stepped(operation: tf.Tensor, strength: tf.Tensor) -> tf.Tensor:
    """Returns look-up tables, uint8 [some, 256, 1], of posterize or solarize, with strengths float32 [some]."""
    number = tf.cast(strength, tf.int32)[:, tf.newaxis]
    ramp = tf.range(256)[tf.newaxis]
    lost = tf.bitwise.left_shift(1, tf.clip_by_value(8 - number, 0, 8))
    posterized = ramp // lost * lost
    solarized = tf.where(ramp >= number, 255 - ramp, ramp)
    is_posterized = operation[:, tf.newaxis] == OPERATIONS.index("posterize")
    return tf.cast(tf.where(is_posterized, posterized, solarized), tf.uint8)[:, :, tf.newaxis]


def strengths(shear: float, move: float, degrees: float, change: float, bits: float) -> np.ndarray:
    """Returns float32 [14, 31] from the largest strength of each kind of operation; bits: the fewest that stay."""
    rising = np.linspace(0.0, 1.0, BINS)
    table = dict.fromkeys(OPERATIONS, np.zeros(BINS))
    table |= dict.fromkeys(("shear_x", "shear_y"), shear * rising)
    table |= dict.fromkeys(("translate_x", "translate_y"), move * rising)
    table |= dict.fromkeys(("brightness", "contrast", "color", "sharpness"), change * rising)
    table |= {
        "rotate": degrees * rising,
        "posterize": 8.0 - np.round((8 - bits) * rising),
        # Level by level: torchvision's thresholds need not be whole, and the next whole one does the same.
        "solarize": np.ceil(255.0 * (1.0 - rising) - 1e-9),
    }
    return np.stack([table[name] for name in OPERATIONS]).astype(np.float32)
