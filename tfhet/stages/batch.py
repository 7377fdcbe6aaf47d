"""Sets the size of batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("batch")
@dataclass(frozen=True)
class Batch(Stream):
    """Sets the number of examples in a batch of one rank. The last batch of a pass holds the remaining examples."""

    size: int = 32
    """Number of examples in a batch. From 1."""

    setting: ClassVar[str] = "batch_size"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            self.refuse(f"size is at least 1, not {self.size}")

    @property
    def value(self) -> int:
        return self.size
