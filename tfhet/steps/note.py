"""The notes of deliveries: when each batch was requested, when it arrived, and the ids of its examples."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.messages import rank


@dataclass(frozen=True)
class Note:
    """One delivery, or the end of a pass. Times are in seconds on the monotonic clock."""

    asked_s: float
    """Time of the request."""
    delivered_s: float
    examples: int | None
    """Length of the element's first axis; None at the end of a pass."""
    index: int
    """Number of elements that its iterator delivered before."""
    end: str = ""
    """The data set that was iterated over, which the script made of the noted one; "" for the noted one."""


class NotedLoader:
    """The notes of an iterable of Python. One thread notes, another one takes."""

    def __init__(self) -> None:
        self.has_ids = False
        """Whether its batches come with ids."""
        self.expected: int | None = None
        """Number of examples in a pass of all ranks; None if it is unknown."""
        self.lengths: dict[str, int] = {}
        self.pending_s: dict[str, float] = {}
        self.part_us: Mapping[str, float] = {}
        """Microseconds of an example in each part of a pipeline; {} if they are unknown."""
        self._notes: deque[Note] = deque()
        self._ids: deque[tuple[np.ndarray, int]] = deque()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Marks the body of the `with` statement as a request for a batch."""
        self.pending_s = {"": SYSTEM.monotonic()}
        try:
            yield
        finally:
            self.pending_s = {}

    def add(self, note: Note, ids: np.ndarray | None = None, epoch: int = 0) -> None:
        """Adds a delivery. ids: int64 [n], of the examples that were delivered."""
        self._notes.append(note)
        if ids is not None:
            self.has_ids = True
            self._ids.append((np.array(ids, np.int64), epoch))

    def take(self) -> list[Note]:
        """Takes the notes since the last call, in the order of time."""
        return [self._notes.popleft() for _ in range(len(self._notes))]

    def take_deliveries(self) -> list[Note]:
        """Nothing: what was delivered is what the consumer got."""
        return []

    def take_ids(self) -> np.ndarray:
        """Takes the ids since the last call, and their epochs: int64 [2, n]."""
        found = [self._ids.popleft() for _ in range(len(self._ids))]
        return np.concatenate(
            [np.zeros([2, 0], np.int64), *(np.stack([ids, np.full_like(ids, epoch)]) for ids, epoch in found)], axis=1
        )


class Notes(Protocol):
    """The notes of a data set: a `NotedDataset` or a `NotedLoader`."""

    lengths: dict[str, int]
    """Number of elements of each end, negative if unknown or endless."""
    pending_s: dict[str, float]
    """The time of the request that each end has not answered."""

    def take(self) -> list[Note]:
        """Takes the consumer's notes since the last call, in the order of time."""

    def take_deliveries(self) -> list[Note]:
        """Takes the notes of deliveries to what a script made of the data set."""


@dataclass
class NotedSet:
    """A data set of a script."""

    is_training: bool
    noted: Notes
    name: str
    """The same for a data set that is defined again in the same way."""
    phase: int
    is_read: bool = False
    """Whether its last pass was read to its end, and is no look."""


class Deliveries:
    """Reports to the launcher of the ids that a script was delivered. take_ids: takes new ids and their epochs, int64
    [2, n]. expected: returns the number of examples in a pass, or None if it is unknown. late: the number of passes by
    which an example may come late; None: any."""

    def __init__(self, take_ids: Callable[[], np.ndarray], expected: Callable[[], int | None], late: int | None = 0):
        self.count = 0
        """Number of examples delivered."""
        self._take_ids, self._expected, self._late, self._latest = take_ids, expected, late, 0
        self._held = np.zeros([2, 0], np.int64)

    def take(self, is_due: bool) -> Iterator[rank.Delivered]:
        """Takes what was delivered since the last call; yields reports of it when they are due, or it is much."""
        new = self._take_ids()
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
                yield rank.Delivered(int(epoch), text, self._expected(), over)
