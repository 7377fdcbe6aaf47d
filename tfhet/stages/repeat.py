"""Reads the data several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stream import Stream


@register("repeat")
@dataclass(frozen=True)
class Repeat(Stream):
    """Reads all examples several times in one data set, each time in a new order and with new random numbers.

    It gives the same as that number of epochs one after the other.
    """

    epochs: int = 0
    """Number of passes over the data; 0 for passes without end."""

    setting: ClassVar[str] = "repeat"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 0:
            self.refuse(f"epochs is at least 1, or 0 for without end, not {self.epochs}")

    @property
    def value(self) -> int:
        return self.epochs
