"""RandAugment: some of fourteen operations for each image, all of one strength."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfhet.stages.policy import BINS, Policy, strengths
from tfhet.stages.registry import register


@register("randaugment")
@dataclass(frozen=True)
class RandAugment(Policy):
    """Applies `num_layers` operations to each image, each drawn from fourteen (Cubuk et al., arXiv:1909.13719).

    It works as torchvision's `RandAugment`; `tfhet.stages.policy` lists the operations. Images have 1 or 3 channels and
    are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first; the dtype stays.
    """

    num_layers: int = 2
    """Number of operations for each image. From 1."""
    magnitude: int = 9
    """Strength of the operations, from 0 (most do nothing) to 30. Autocontrast and equalize have none."""
    fill_value: float = 0.0
    """Fill beyond the edge of a moved image, in the units of the images."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_layers < 1 or not 0 <= self.magnitude < BINS:
            self.refuse(
                f"num_layers is at least 1, magnitude from 0 to {BINS - 1}; not {self.num_layers}, {self.magnitude}"
            )

    @property
    def layers(self) -> int:
        return self.num_layers

    @property
    def strengths(self) -> np.ndarray:
        return strengths(shear=0.3, move=150.0 / 331.0, degrees=30.0, change=0.9, bits=4)

    @property
    def bin(self) -> int | None:
        return self.magnitude

    def moved_by(self, strength: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        return strength * length
