"""Reads several splits at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("interleave")
@dataclass(frozen=True)
class Interleave(Stream):
    """So many splits are read side by side, and give one example each in turn: neighbours in a file do not end up in
    one batch, and a slow file does not hold up the others. The order is the same each time. Costs about 2 us of CPU for
    each example (TF 2.15). Without it, one split is read after the other."""

    files: int = 4
    """Splits read at once. From 1."""

    setting: ClassVar[str] = "interleave"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.files < 1:
            self.refuse(f"files is at least 1, not {self.files}")

    @property
    def value(self) -> int:
        return self.files
