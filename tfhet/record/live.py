"""The state of a run that has not ended, which is the content of `live.json`: each rank in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LiveRank:
    """One rank: its batches so far, and means over its last steps. None means not measured."""

    rank: int
    host: str
    steps: int
    """Number of batches delivered for training."""
    epoch: int
    """Number of its pass over the training data, from 0."""
    batches: int = 0
    """Number of all batches, also those for validation and those that no training is known of yet."""
    step_ms: float | None = None
    wait_pct: float | None = None
    """Share of the steps' time that waits for data, 0 to 100."""
    examples_per_s: float | None = None


@dataclass(frozen=True)
class LiveRun:
    ranks: Sequence[LiveRank] = ()
