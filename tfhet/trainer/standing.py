"""Where a training stands: how far an epoch and a pass have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


def means(totals: Sequence[float] | np.ndarray, prefix: str = "") -> dict[str, float]:
    """Loss and accuracy per example, from examples, loss sum and correct answers; nothing without examples."""
    examples, loss, correct = map(float, totals)
    return {f"{prefix}loss": loss / examples, f"{prefix}accuracy": correct / examples} if examples else {}


@dataclass(frozen=True)
class Begun:
    """Where a training stands within an epoch, and within a pass over the data."""

    steps: int = 0
    """Steps taken in the epoch."""
    number: int = 0
    """Number of the pass: that of the epoch, unless an epoch is a number of steps."""
    seen: np.ndarray | None = None
    """int64 [n]: ids of the examples of the pass that all ranks have seen, the same on every rank; None: none."""


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
    totals: np.ndarray = field(default_factory=lambda: np.zeros(3))
    """Examples, loss sum and correct answers so far, all ranks together."""

    def is_done(self, step: int) -> bool:
        """Whether the epoch has all its steps when `step` have been taken since the training began."""
        return bool(self.steps) and step - self.first >= self.steps
