"""An epoch under way: how long it is, and what it has come to so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

AHEAD_S = 30.0
"""About how many seconds before the end of a pass the next one is made ready."""


@dataclass
class Course:
    """One epoch under way."""

    epoch: int
    steps: int
    """Steps in the epoch; 0: it is a whole pass."""
    first: int
    """Step at which the epoch began, in whichever run."""
    steps_expected: int
    """About how many steps the epoch has; the learning rate moves by it."""
    per_step: int
    """Examples of a full step of all ranks."""
    is_last: bool
    """Whether no epoch follows."""
    totals: np.ndarray = field(default_factory=lambda: np.zeros(3))
    """Examples, loss sum and correct answers so far, all ranks together."""

    def is_done(self, step: int) -> bool:
        """Whether the epoch has all its steps when `step` have been taken since the training began."""
        return bool(self.steps) and step - self.first >= self.steps

    def wants_next(self, step: int, left: float, step_s: float) -> bool:
        """Whether another pass should be made ready, which follows when `left` more examples are trained on.

        step: number of steps since the training began; step_s: how long the last one took.
        """
        steps_left = max(0, math.ceil(left / self.per_step)) if left < math.inf else math.inf
        follows = not self.is_last or step - self.first + steps_left < self.steps
        return follows and steps_left * step_s <= AHEAD_S
