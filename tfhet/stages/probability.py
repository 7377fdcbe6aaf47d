"""Applies a stage to some of the images."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.stages.choice import Choice
from tfhet.stages.registry import register
from tfhet.stages.stage import Stage


@register("probability")
@dataclass(frozen=True)
class Probability(Choice):
    """Each image goes through the stage with a probability: `probability(gaussian_blur(5, 1.0), 0.5)`.

    An image that is not chosen costs a copy. The stage must keep shape, dtype and range.
    """

    stage: Stage
    """Stage that is applied; any stage of images, also a random one."""
    p: float = 0.5
    """Probability that it is applied to an image, from 0 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.p <= 1.0:
            self.refuse(f"p is a probability, from 0 to 1, not {self.p}")
        self.check_branches()

    @property
    def branches(self) -> tuple[Stage | None, ...]:
        return None, self.stage

    @property
    def shares(self) -> tuple[float, ...]:
        return 1.0 - self.p, self.p
