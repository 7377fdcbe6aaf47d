"""Some of fourteen operations for each image, all of one strength: RandAugment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfhet.stages.policy import BINS, Policy, strengths
from tfhet.stages.registry import register


@register("randaugment")
@dataclass(frozen=True)
class RandAugment(Policy):
    """Each image meets `num_layers` operations in turn, each drawn from all fourteen (Cubuk et al., arXiv:1909.13719).

    As torchvision's `RandAugment`; `tfhet.stages.policy` lists the operations. uint8 in 0..255 or float32 in 0..1,
    which is brought to the nearest of the 256 levels first; the dtype stays. 1 channel or 3.
    """

    num_layers: int = 2
    """Operations that each image meets. From 1."""
    magnitude: int = 9
    """How strong they are, from 0 to 30. With 0 most of them do nothing; autocontrast, equalize have none."""
    fill_value: float = 0.0
    """What lies beyond the edge of a moved image, in the units of the images."""

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
