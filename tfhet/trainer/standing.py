"""Where a training stands: its sums, its steps that are under way, and how far an epoch and a pass have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Totals:
    """Sums over the examples of an epoch, all ranks together."""

    examples: float = 0.0
    loss: float = 0.0
    correct: float = 0.0

    def add(self, counts: Sequence[float]) -> None:
        """Examples, loss, right answers."""
        self.examples += counts[0]
        self.loss += counts[1]
        self.correct += counts[2]

    def means(self, prefix: str = "") -> dict[str, float]:
        """Loss and accuracy per example; nothing when there were none."""
        if not self.examples:
            return {}
        return {f"{prefix}loss": self.loss / self.examples, f"{prefix}accuracy": self.correct / self.examples}


@dataclass(frozen=True)
class Taken:
    """A step whose sums may still be under way."""

    sums: Any
    began_s: float
    step_s: float
    wait_s: float
    copy_s: float
    allreduce_s: Any


@dataclass(frozen=True)
class Begun:
    """Where a training stands within an epoch, and within a pass over the data."""

    steps: int = 0
    """Steps taken in the epoch."""
    number: int = 0
    """Of the pass; the epoch's own, unless an epoch is so many steps."""
    seen: np.ndarray | None = None
    """int64 [n]: ids of the examples that were seen of the pass, on all ranks, the same on every rank; None: none."""


@dataclass
class Course:
    """One epoch on its way."""

    epoch: int
    steps: int
    """In the epoch; 0: as many as a pass has."""
    first: int
    """Step at which the epoch began, in whichever run."""
    steps_expected: int
    totals: Totals = field(default_factory=Totals)

    def is_done(self, step: int) -> bool:
        """Whether so many steps are enough."""
        return bool(self.steps) and step - self.first >= self.steps
