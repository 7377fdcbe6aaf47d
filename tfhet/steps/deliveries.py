"""The ids of the examples that a script of one's own was delivered, as reports to its launcher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from tfhet.messages import rank


class TakesIds(Protocol):
    """The notes of what was delivered."""

    def take_ids(self) -> np.ndarray:
        """Takes the ids since the last call, and their epochs: int64 [2, n]."""


class Deliveries:
    """expected: the number of examples in a pass; None: not known. late: the number of passes by which an example may
    come late; None: any."""

    def __init__(self, noted: TakesIds, expected: int | None, late: int | None = 0):
        self.count = 0
        """Number of examples delivered."""
        self.expected = expected
        self._noted, self._late, self._latest = noted, late, 0
        self._held = np.zeros([2, 0], np.int64)

    def take(self, is_due: bool) -> Iterator[rank.Delivered]:
        """Takes what was delivered since the last call; yields reports of it when they are due, or it is much."""
        new = self._noted.take_ids()
        self.count += new.shape[1]
        self._held = np.concatenate([self._held, new], axis=1)
        if not self._held.size or not (is_due or self._held.shape[1] >= rank.MOST_IDS):
            return
        (ids, epochs), self._held = self._held, self._held[:, :0]
        self._latest = max(self._latest, int(epochs.max()))
        over = 0 if self._late is None else max(0, self._latest - 1 - self._late)
        for epoch in np.unique(epochs):
            own = ids[epochs == epoch]
            for at in range(0, len(own), rank.MOST_IDS):
                text = rank.packed(own[at : at + rank.MOST_IDS])
                yield rank.Delivered(int(epoch), text, self.expected, over)
