"""Sets the number of batches that are prepared ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("prefetch")
@dataclass(frozen=True)
class Prefetch(Stream):
    """Holds batches ready, in each data worker and again in each trainer.

    More batches bridge longer pauses of the source and take more memory. Other trainers cannot get the batches that one
    holds.
    """

    batches: int = 2
    """Number of batches. From 1."""

    setting: ClassVar[str] = "prefetch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batches < 1:
            self.refuse(f"batches is at least 1, not {self.batches}")

    @property
    def value(self) -> int:
        return self.batches
