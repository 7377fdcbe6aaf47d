"""The notes of deliveries: when each batch was asked for, and when it was there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Note:
    """One delivery, or the end of a pass."""

    asked_s: float
    """When the element was asked for, in seconds on the monotonic clock; `delivered_s`: when it was there."""
    delivered_s: float
    examples: int | None
    """Length of the element's first axis; None at the end of a pass."""
    index: int
    """Number of elements that its iterator delivered before."""


class NotedLoader:
    """The notes of an iterable of Python. One thread notes, another one takes."""

    def __init__(self) -> None:
        self._notes: deque[Note] = deque()
        self._ids: deque[tuple[np.ndarray, int]] = deque()

    def add(self, note: Note, ids: np.ndarray | None = None, epoch: int = 0) -> None:
        """ids: int64 [n], of the examples that were delivered."""
        self._notes.append(note)
        if ids is not None:
            self._ids.append((np.array(ids, np.int64), epoch))

    def take(self) -> list[Note]:
        """Takes the notes since the last call, in the order of time."""
        return list(self._all())

    def take_deliveries(self) -> list[Note]:
        """Nothing: what was delivered is what the consumer got."""
        return []

    def take_ids(self) -> np.ndarray:
        """Takes the ids since the last call, and their epochs: int64 [2, n]."""
        found = [self._ids.popleft() for _ in range(len(self._ids))]
        return np.concatenate(
            [np.zeros([2, 0], np.int64), *(np.stack([ids, np.full_like(ids, epoch)]) for ids, epoch in found)], axis=1
        )

    def _all(self) -> Iterator[Note]:
        while self._notes:
            yield self._notes.popleft()
