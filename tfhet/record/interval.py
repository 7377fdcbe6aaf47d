"""An interval: a number between two ends, to compute with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from tfhet.errors import UsageError
from tfhet.record.figure import Figure


class View(Enum):
    """End of every interval that a prediction takes. A model monotone in each input is worst where all are."""

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
        if not 0 <= self.low <= self.value <= self.high < math.inf:
            raise UsageError(f"{self.value} between {self.low} and {self.high}: wanted 0 <= low <= value <= high")

    @classmethod
    def exact(cls, value: float) -> Interval:
        return cls(float(value), float(value), float(value))

    @classmethod
    def of(cls, figure: Figure) -> Interval:
        """The interval that was measured. A negative end, which only noise can cause, becomes 0."""
        value = max(0.0, figure.value)
        return cls(value, min(value, max(0.0, figure.low)), max(value, figure.high))

    def times(self, factor: float) -> Interval:
        """The interval multiplied by a number from 0 up."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def plus(self, other: Interval) -> Interval:
        """The sum, as if both are low together and high together."""
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def inverse(self) -> Interval:
        """1 over the interval, which must not contain 0."""
        return Interval(1 / self.value, 1 / self.high, 1 / self.low)

    def rounded(self) -> Interval:
        """The interval in three digits."""
        return Interval(*(float(f"{end:.3g}") for end in (self.value, self.low, self.high)))

    def demand(self, view: View) -> float:
        """One number of a quantity that should be small, so that its worst is the high end."""
        return {View.EXPECTED: self.value, View.BEST: self.low, View.WORST: self.high}[view]

    def supply(self, view: View) -> float:
        """One number of a quantity that should be large, so that its worst is the low end."""
        return {View.EXPECTED: self.value, View.BEST: self.high, View.WORST: self.low}[view]

    def figure(self, unit: str) -> Figure:
        return Figure(self.value, self.low, self.high, unit, 1)

    def to_json(self) -> dict[str, float]:
        return dict(vars(self))
