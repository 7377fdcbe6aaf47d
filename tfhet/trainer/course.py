"""An epoch under way: how long it is, and what it has come to so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

AHEAD_S = 30.0
"""About how many seconds before the end of a pass the next one is made ready."""


@dataclass
class Course:
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
    totals: np.ndarray = field(default_factory=lambda: np.zeros(3))
    """Examples, loss sum and correct answers so far, all ranks together."""

    def is_done(self, step: int) -> bool:
        """Whether the epoch has all its steps when `step` have been taken since the training began."""
        return bool(self.steps) and step - self.first >= self.steps

    def steps_left(self, left: float) -> float:
        """Full steps that `left` examples are good for."""
        return max(0, math.ceil(left / self.per_step)) if left < math.inf else math.inf

    def is_followed(self, step: int, left: float) -> bool:
        """Whether another pass follows this one; the same on all ranks. step: number of steps since the training
        began. left: number of examples of this pass still to come."""
        return not self.is_last or step - self.first + self.steps_left(left) < self.steps
