"""The audit: which examples an epoch delivered, counted by id over all ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfhet.trainer.collective import Collective


@dataclass(frozen=True)
class Visits:
    """What became of the examples of one epoch."""

    expected: int | None
    """Examples in the source; None where that is not known."""
    seen: int
    """Examples delivered, repetitions included."""
    once: int
    """Ids delivered exactly once."""
    repeated: int
    """Ids delivered more than once."""
    missing: int | None
    """Ids never delivered; None where the number of examples is not known."""

    @classmethod
    def of(cls, ids: np.ndarray, expected: int | None) -> Visits:
        """Counts int64 ids."""
        _, counts = np.unique(ids, return_counts=True)
        missing = None if expected is None else expected - len(counts)
        return cls(expected, len(ids), int((counts == 1).sum()), int((counts > 1).sum()), missing)


class Audit:
    """Collects this rank's ids of one epoch."""

    def __init__(self) -> None:
        self._ids: list[np.ndarray] = []

    def saw(self, ids: np.ndarray) -> None:
        """Adds the ids of a batch, int64 [batch]."""
        self._ids.append(ids)

    def close(self, expected: int | None, collective: Collective) -> Visits:
        """All ranks' visits. Every rank must call it; starts anew."""
        mine = np.concatenate(self._ids) if self._ids else np.zeros(0, np.int64)
        self._ids = []
        return Visits.of(collective.gather(mine, "audit"), expected)
