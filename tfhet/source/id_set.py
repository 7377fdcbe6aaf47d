"""Sets of example ids as bits: a row of 72 bytes for each 512 neighbours in a split, if one of them is in the set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class IdSet:
    """A set of ids, in rows (`id >> 9`) of words (`id >> 6`); 128 rows are a block (`id >> 16`)."""

    table: np.ndarray
    """int64 [rows, 9]: the number of the row, ascending, and a bit for each of its ids, the lowest bit first."""

    @classmethod
    def of(cls, ids: Sequence[int] | np.ndarray = ()) -> IdSet:
        """The set of the int64 `ids`, of any order and with repetitions."""
        ids = np.sort(np.asarray(ids, np.int64), kind="stable")
        starts = np.flatnonzero(np.diff(ids >> 6, prepend=-1))
        words = ids[starts] >> 6
        rows, at = np.unique(words >> 3, return_inverse=True)
        table = np.zeros((len(rows), 9), np.int64)
        table[:, 0] = rows
        if ids.size:
            table[at, 1 + words % 8] = np.bitwise_or.reduceat(np.left_shift(1, ids & 63), starts)
        return cls(table)

    @classmethod
    def union(cls, *sets: IdSet) -> IdSet:
        """Returns the ids of all sets, at least one; their rows may be in any order."""
        tables = [one.table for one in sets if one.table.size] or [sets[0].table]
        table = tables[0] if len(tables) == 1 else np.concatenate(tables)
        table = table[np.argsort(table[:, 0], kind="stable")]
        starts = np.flatnonzero(np.diff(table[:, 0], prepend=-1))
        return cls(table if len(starts) == len(table) else np.bitwise_or.reduceat(table, starts, axis=0))

    @classmethod
    def whole(cls, splits: np.ndarray, sizes: np.ndarray, is_wanted: Callable[[np.ndarray], np.ndarray]) -> IdSet:
        """All ids of splits of these sizes, both int64 [n], in the blocks that `is_wanted`, int64 [m] -> bool [m]."""
        blocks, counts = _cut(splits << 16, sizes, 16)
        wanted = is_wanted(blocks)
        rows, counts = _cut(blocks[wanted] << 7, counts[wanted], 9)
        words = np.clip(counts[:, None] - np.arange(0, 512, 64), 0, 64)
        return cls(np.column_stack([rows, np.left_shift(1, words) - 1]))

    def __sub__(self, other: IdSet) -> IdSet:
        table = self.table.copy()
        _, mine, others = np.intersect1d(table[:, 0], other.table[:, 0], assume_unique=True, return_indices=True)
        table[mine, 1:] &= ~other.table[others, 1:]
        return IdSet(table[table[:, 1:].any(axis=1)])

    @property
    def count(self) -> int:
        """Number of ids in the set."""
        return int(self._bits().sum())

    def per_split(self, splits: int) -> np.ndarray:
        """Number of ids in each of so many splits, float64 [splits]."""
        return np.bincount(self.table[:, 0] >> 23, self._bits().sum(axis=1), splits)

    def beyond_gaps(self, splits: int) -> tuple[np.ndarray, IdSet]:
        """The position of the first id of each split that is not in the set, int64 [splits], and the ids after it, with
        some before it: those that share a row with it."""
        rows, split = self.table[:, 0] % (1 << 23), self.table[:, 0] >> 23
        places = np.arange(len(rows)) - np.searchsorted(split, split)
        gaps = np.flatnonzero((rows != places) | (self.table[:, 1:] != -1).any(axis=1))
        found, first = np.unique(split[gaps], return_index=True)
        at = gaps[first]
        positions = 512 * np.bincount(split, minlength=splits)
        ends = IdSet(self.table[at])._bits().argmin(axis=1)
        positions[found] = 512 * places[at] + np.where(rows[at] == places[at], ends, 0)
        return positions, IdSet(self.table[rows >= positions[split] >> 9])

    def ids(self) -> np.ndarray:
        """The ids, int64, ascending."""
        rows, places = np.nonzero(self._bits())
        return (self.table[rows, 0] << 9) + places

    def _bits(self) -> np.ndarray:
        """Whether each id is in the set, uint8 [rows, 512]."""
        return np.unpackbits(np.ascontiguousarray(self.table[:, 1:]).view(np.uint8), axis=1, bitorder="little")


class IdCount:
    """The ids that came, and those among them that came more than once."""

    def __init__(self) -> None:
        self.found = self.twice = IdSet.of()

    def add(self, ids: np.ndarray) -> None:
        """Adds int64 `ids` of any order, with repetitions."""
        ids = np.sort(ids, kind="stable")
        new = IdSet.of(ids)
        self.twice = IdSet.union(self.twice, new - (new - self.found), IdSet.of(ids[1:][ids[1:] == ids[:-1]]))
        self.found = IdSet.union(self.found, new)


def _cut(starts: np.ndarray, counts: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Runs of `counts` ids in pieces of 2**bits, from the piece `starts` on: numbers and sizes of the pieces."""
    pieces = -(-counts >> bits)
    places = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return np.repeat(starts, pieces) + places, np.minimum(np.repeat(counts, pieces) - (places << bits), 1 << bits)
