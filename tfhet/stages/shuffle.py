"""Shuffles the order of examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("shuffle")
@dataclass(frozen=True)
class Shuffle(Stream):
    """Takes examples from a buffer in seeded random order.

    One worker reads a split, so a split shares the buffer with those that this worker reads before and after it.
    """

    buffer: int = 1000
    """Number of examples in the buffer. From 2."""

    setting: ClassVar[str] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer < 2:
            self.refuse(f"buffer is at least 2, not {self.buffer}")

    @property
    def value(self) -> int:
        return self.buffer
