"""TrivialAugment: one of fourteen operations for each image, of any strength."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfhet.stages.policy import Policy, strengths
from tfhet.stages.registry import register


@register("trivialaugment")
@dataclass(frozen=True)
class TrivialAugment(Policy):
    """Applies one operation to each image, drawn from fourteen, with one of 31 strengths (Müller and Hutter,
    arXiv:2103.10158, with the wide ranges).

    It works as torchvision's `TrivialAugmentWide`; `tfhet.stages.policy` lists the operations. Images have 1 or 3
    channels and are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first; the dtype stays.
    """

    fill_value: float = 0.0
    """Fill beyond the edge of a moved image, in the units of the images."""

    @property
    def strengths(self) -> np.ndarray:
        return strengths(shear=0.99, move=32.0, degrees=135.0, change=0.99, bits=2)

    @property
    def bin(self) -> int | None:
        return None

    def moved_by(self, strength: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        return strength
