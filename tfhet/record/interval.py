"""A number that is not exactly known: its value, and the ends between which it lies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from tfhet.errors import UsageError
from tfhet.record import Figure


class View(Enum):
    """Which end of every interval a prediction takes. The model is monotone in each of them, so the worst of all
    predictions is the one with every input at its worst."""

    EXPECTED = "expected"
    BEST = "best"
    WORST = "worst"


@dataclass(frozen=True)
class Interval:
    """0 <= low <= value <= high, all finite. Raises UsageError for anything else."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        ordered = 0 <= self.low <= self.value <= self.high
        if not (ordered and math.isfinite(self.high)):
            raise UsageError(f"{self.value} between {self.low} and {self.high}: wanted 0 <= low <= value <= high")

    @classmethod
    def exact(cls, value: float) -> Interval:
        """Known, or stated without a spread."""
        return cls(float(value), float(value), float(value))

    @classmethod
    def of(cls, figure: Figure) -> Interval:
        """What was measured; what noise made negative is 0."""
        value = max(0.0, figure.value)
        return cls(value, min(value, max(0.0, figure.low)), max(value, figure.high))

    def times(self, factor: float) -> Interval:
        """All three multiplied by a number from 0 up."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def demand(self, view: View) -> float:
        """Of what should be small: the worst is the high end."""
        return {View.EXPECTED: self.value, View.BEST: self.low, View.WORST: self.high}[view]

    def supply(self, view: View) -> float:
        """Of what should be large: the worst is the low end."""
        return {View.EXPECTED: self.value, View.BEST: self.high, View.WORST: self.low}[view]

    def figure(self, unit: str) -> Figure:
        """As records and plots take it."""
        return Figure(self.value, self.low, self.high, unit, 1)

    def to_json(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}
