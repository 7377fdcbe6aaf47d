"""The part of a pipeline that the cut and the lowering read, and the names in its elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tfhet.source import Source
from tfhet.stages import ImageSpec, Stage

IMAGE, LABEL, ID, EPOCH = "image", "label", "id", "epoch"


@dataclass(frozen=True)
class PlacedStage:
    """A stage with its declared position, on which its random numbers depend, and its output."""

    stage: Stage
    declared: int
    """Position in `Pipeline.stages`, from 0."""
    output: ImageSpec
    """Spec of the images after the stage."""

    @property
    def key(self) -> str:
        """Name and declared position, like `random_flip:3`."""
        return f"{self.stage.name}:{self.declared}"


class Declaration(Protocol):
    """A declared pipeline. `tfhet.placement.Pipeline` implements it and documents the fields."""

    @property
    def source(self) -> Source: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def shuffle(self) -> int: ...

    @property
    def repeat(self) -> int: ...

    @property
    def interleave(self) -> int: ...

    @property
    def cache(self) -> str: ...

    @property
    def prefetch(self) -> int: ...

    @property
    def shuffle_splits(self) -> bool: ...

    @property
    def fuse(self) -> bool: ...

    @property
    def record_parameters(self) -> bool: ...

    @property
    def input(self) -> ImageSpec:
        """Spec of the images before the first stage."""

    def placed(self) -> tuple[PlacedStage, ...]:
        """Returns the stages in the order in which they run."""
