"""Batches that a reader requests and delivers, and the set of those that it has delivered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from tfhet.errors import DataError
from tfhet.planes.feed.frame import examples_in
from tfhet.planes.feed.source import Shard
from tfhet.schema import Count, MessageError

Key = tuple[int, int]
"""A batch of an epoch: the index of its shard and its number in the shard."""

RequestKey = tuple[int, int, bool]
"""A batch, by its `Key`, and whether it is requested as a rest: it may have been refused in its round before."""
HELD_FOR_A_RANK = 4
"""Minimum number of batches, for each rank, that an iterable may be ahead of ranks that have not requested them."""
NO_BATCH = 1 << 53
"""Sentinel batch number: requesting it returns the facts of a map-style dataset alone."""
MOST_LOSSES = 4
"""Maximum number of processes that are lost while they make one batch."""


class BatchRequest(msgspec.Struct, frozen=True):
    """A reader's request for one batch of a shard."""

    shard: Shard
    number: Count
    """Index of the batch in its shard."""
    first: Count
    """The lowest index that this reader still needs of the shard."""
    ranks: Annotated[int, Meta(ge=1)] = 1
    """Number of ranks that share the shard; each requests other batches."""
    is_rest: bool = False
    """Whether the batch may belong to an incomplete round; otherwise the shard ends before that round."""
    ahead: Count = 0
    """Number of batches that this reader may have from one server at a time."""
    offset: Count = 0
    """Number of examples of a map-style dataset that were delivered before; the batches divide the others."""
    iteration: Count = 0
    """Twice the number of iterations that this reader has begun, plus 1 for batches of the next one."""

    @property
    def most_held(self) -> int:
        """Number of batches that an iterable may be ahead, among them the one that the script of a rank has."""
        return max(HELD_FOR_A_RANK, self.ahead + 2) * self.ranks

    @property
    def rank(self) -> int:
        """The rank that requests the batch, unless `is_rest`."""
        return self.number % self.ranks

    @property
    def round_end(self) -> int:
        """Number of batches up to the end of the round that the batch belongs to."""
        return self.number + 1 if self.is_rest else (self.number // self.ranks + 1) * self.ranks


def described(key: RequestKey, epoch: int) -> str:
    if key[1] == NO_BATCH:
        return "the dataset"
    return f"batch {key[1]} of shard {key[0]}, epoch {epoch}"


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


def halves(received: Received) -> list[Received]:
    """Returns a batch in two parts, or [] if its arrays and lists are not of one length of at least 2."""
    count = examples_in(received.batch)

    def part(value: Any, rows: slice) -> Any:
        if isinstance(value, dict):
            return {key: part(one, rows) for key, one in value.items()}
        if isinstance(value, np.ndarray) and value.ndim and len(value) == count:
            return value[rows]
        if isinstance(value, (str, bytes)):
            return value  # a number may be a count, which would be wrong in both parts
        if isinstance(value, (list, tuple)):
            if len(value) == count and not any(isinstance(one, (np.ndarray, dict, list, tuple)) for one in value):
                return value[rows]
            return type(value)(part(one, rows) for one in value)
        raise ValueError

    try:
        both = slice(0, count // 2), slice(count // 2, count)
        return [received._replace(batch=part(received.batch, rows)) for rows in both] if count > 1 else []
    except ValueError:
        return []


class Loss(NamedTuple):
    """A batch that a lost server was to make."""

    batch: str
    losses: int = 0
    """Number of servers that were lost with it."""
    work_s: float = 0.0
    """Seconds that they had for it."""

    def again(self, work_s: float) -> Loss:
        return self._replace(losses=self.losses + 1, work_s=self.work_s + work_s)

    def reason(self, source: object, why: str, limit_s: float) -> str | None:
        """Returns why the batch is not requested again; None if it is."""
        if self.losses < MOST_LOSSES and self.work_s <= limit_s:
            return None
        return (
            f"{source}: {self.losses} of the processes that were to make {self.batch} were lost one after the other, "
            f"with {self.work_s:.0f} s of work on it (the last one: {why}). There, or at the next batch, the function "
            f"may hold Python's lock in C code, which hides it from make_limit_s ({limit_s:g} s), or end its process, "
            "for example for want of memory"
        )


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
