"""Goes through the data several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("repeat")
@dataclass(frozen=True)
class Repeat(Stream):
    """One data set goes through all examples so many times, each time in another order and with other draws, as so many
    epochs one after the other would."""

    epochs: int = 0
    """Passes over the data; 0: without end."""

    setting: ClassVar[str] = "repeat"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 0:
            self.refuse(f"epochs is at least 1, or 0 for without end, not {self.epochs}")

    @property
    def value(self) -> int:
        return self.epochs
