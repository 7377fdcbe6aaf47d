"""Batches that a reader delivers, and the set of those that it has delivered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from tfhet.errors import DataError
from tfhet.schema import MessageError

Key = tuple[int, int]
"""A batch of an epoch: the index of its shard and its number in the shard."""


class SourceError(DataError):
    """The user's code raised an error on a serving host; the text holds its traceback."""


class Received(NamedTuple):
    """A batch that a reader delivers. An iterable has neither ids nor a number of examples."""

    batch: Any
    """Its arrays are views of memory that is used again when nothing refers to them any more."""
    ids: np.ndarray | None
    """int64 [batch]: numbers of the examples in a map-style dataset."""
    examples: int | None
    """Number of examples in a whole epoch of a map-style dataset."""
    key: Key
    server: int
    """Index of the server that made it."""

    @classmethod
    def of(cls, value: Any, examples: int | None, key: Key, server: int) -> Received:
        """Makes it of the value that a server sent, a batch with its ids. Raises MessageError for any other value."""
        if not (isinstance(value, dict) and value.keys() == {"batch", "ids"}):
            raise MessageError("a batch without its tree")
        return cls(value["batch"], value["ids"], examples, key, server)


class BatchReader(Protocol):
    """Reads a rank's share of the batches that a user's function returns. See `FeedReader`."""

    left: int
    """Number of batches of all epochs that no rank got, because they fill no round of all ranks."""

    @property
    def again(self) -> int | None:
        """Number of batches that servers made a second time; None if the plane does not know it."""

    def epoch(self, epoch: int, delivered: Iterable[Key] = (), *, continues: bool = True) -> Iterator[Received]:
        """Yields the batches of an epoch, without those in `delivered`."""

    def delivered(self, epoch: int) -> frozenset[Key]:
        """Returns the batches of an unfinished epoch that were delivered."""

    def batches(self) -> int:
        """Returns the number of batches in an epoch. Raises TypeError if it is unknown."""

    def close(self) -> None:
        """Ends all connections."""


class DeliveredSet:
    """The batches of an epoch that a rank has received. An epoch may be endless, so the memory does not grow with it:
    the set holds the number of complete rounds of each shard, and single batches beyond them."""

    def __init__(self, rank: int, size: int, keys: Iterable[Key] = ()):
        self._rank, self._size = rank, size
        self._rounds: dict[int, int] = {}
        self._beyond: set[Key] = set()
        for key in keys:
            self.add(key)

    @classmethod
    def parse(cls, rows: Iterable[Iterable[int]], rank: int, size: int) -> frozenset[Key]:
        """Returns the batches of `rows()`. Raises TypeError and ValueError for anything else."""
        found = set[Key]()
        for index, rounds, *numbers in rows:
            found.update((index, each * size + rank) for each in range(rounds))
            found.update((index, number) for number in numbers)
        return frozenset(found)

    def add(self, key: Key) -> None:
        index = key[0]
        self._beyond.add(key)
        rounds = self._rounds.get(index, 0)
        while (first := (index, rounds * self._size + self._rank)) in self._beyond:
            self._beyond.remove(first)
            self._rounds[index] = rounds = rounds + 1

    def __contains__(self, key: Key) -> bool:
        rounds, place = divmod(key[1], self._size)
        return (place == self._rank and rounds < self._rounds.get(key[0], 0)) or key in self._beyond

    def __bool__(self) -> bool:
        return bool(self._rounds or self._beyond)

    def keys(self) -> frozenset[Key]:
        return self.parse(self.rows(), self._rank, self._size)

    def rows(self) -> list[list[int]]:
        """Returns JSON values: for each shard its index, its number of complete rounds, and the numbers beyond."""
        rows = {index: [index, rounds] for index, rounds in self._rounds.items()}
        for index, number in sorted(self._beyond):
            rows.setdefault(index, [index, 0]).append(number)
        return [rows[index] for index in sorted(rows)]
