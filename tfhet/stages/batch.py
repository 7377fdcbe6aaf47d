"""How many examples travel together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("batch")
@dataclass(frozen=True)
class Batch(Stream):
    """So many examples make a batch, the last one of a pass holds what is left. The batch is that of one rank."""

    size: int = 32
    """Examples in a batch. From 1."""

    setting: ClassVar[str] = "batch_size"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            self.refuse(f"size is at least 1, not {self.size}")

    @property
    def value(self) -> int:
        return self.size
