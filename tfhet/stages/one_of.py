"""Draws, for each image, one of several stages, or whether a stage is applied: one_of and probability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.choice import Choice
from tfhet.stages.registry import register
from tfhet.stages.stage import Fraction, Stage


@register("one_of")
@dataclass(frozen=True)
class OneOf(Choice):
    """Each image goes through one stage that is drawn for it: `one_of(posterize(4), solarize(128))`.

    Each stage works only on the images that drew it. The stages must agree on shape, dtype and range.
    """

    stages: tuple[Stage, ...]
    """Stages to choose from, at least two; any stages of images, also random ones."""
    weights: tuple[float, ...] = ()
    """Relative probability of each stage, in any unit: `weights=(3, 1)`. Empty: all are equally likely."""

    variadic: ClassVar[str] = "stages"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.stages, (tuple, list)) or len(self.stages) < 2:
            self.refuse(f"chooses among at least two stages, not {self.stages!r}")
        weights = self.weights
        numbers = isinstance(weights, (tuple, list)) and all(type(n) in (int, float) for n in weights)
        if not numbers or not all(0.0 <= n < math.inf for n in weights) or (weights and not sum(weights) > 0.0):
            self.refuse(f"weights are numbers from 0, not all of them 0; not {weights!r}")
        if weights and len(weights) != len(self.stages):
            self.refuse(f"{len(weights)} weights for {len(self.stages)} stages")
        object.__setattr__(self, "stages", tuple(self.stages))
        object.__setattr__(self, "weights", tuple(float(n) for n in weights))
        self.check_branches()

    @property
    def branches(self) -> tuple[Stage | None, ...]:
        return self.stages

    @property
    def shares(self) -> tuple[float, ...]:
        weights = self.weights or (1.0,) * len(self.stages)
        return tuple(weight / sum(weights) for weight in weights)


@register("probability")
@dataclass(frozen=True)
class Probability(Choice):
    """Each image goes through the stage with a probability: `probability(gaussian_blur(5, 1.0), 0.5)`.

    An image that is not chosen costs a copy. The stage must keep shape, dtype and range.
    """

    stage: Stage
    """Stage that is applied; any stage of images, also a random one."""
    p: Fraction = 0.5
    """Probability that it is applied to an image, from 0 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_branches()

    @property
    def branches(self) -> tuple[Stage | None, ...]:
        return None, self.stage

    @property
    def shares(self) -> tuple[float, ...]:
        return 1.0 - self.p, self.p
