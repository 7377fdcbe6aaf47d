"""How many batches are prepared before they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("prefetch")
@dataclass(frozen=True)
class Prefetch(Stream):
    """So many batches are held ready, by each data worker and again by each trainer: more of them bridge longer pauses
    of the source, and cost memory. What one trainer holds ready the others cannot get."""

    batches: int = 2
    """From 1."""

    setting: ClassVar[str] = "prefetch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batches < 1:
            self.refuse(f"batches is at least 1, not {self.batches}")

    @property
    def value(self) -> int:
        return self.batches
