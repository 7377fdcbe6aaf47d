"""The audit of an epoch: which examples were seen, by id over all ranks and parts, and how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfhet.errors import DataError
from tfhet.pipeline import Rest
from tfhet.record import Visits
from tfhet.source import IdCount, IdSet, Source
from tfhet.strategies import Collective

MOST = 1 << 18
"""Maximum number of int64 that a rank sends at once: a bound for memory, far below the int32 counts of MPI."""


class Audit:
    """The account of one epoch, to which all ranks contribute. Each block of ids has an owner, the rank that knows
    which of them were seen; the others send it what they were given. Every rank must construct the audit, and call what
    the others call, in their order."""

    def __init__(self, source: Source, collective: Collective, before: Rest | None = None, bad: ArrayLike = ()):
        """before: what earlier runs left of the epoch, None on all ranks for all of it; a rank may know a part of what
        was seen. bad: ids whose records cannot be read, the same on every rank."""
        self.rereads = 0
        self.is_resumed = before is not None
        """Whether the epoch was begun by an earlier run."""
        self.bad = np.asarray(bad, np.int64)
        self.count = 0
        """Examples delivered in this run up to the last exchange."""
        self.sizes: Sequence[int] | None = source.split_sizes()
        """Examples in each split, where that is known."""
        self._splits, self._expected, self._collective = source.split_count(), source.example_count(), collective
        self._mine: list[np.ndarray] = []
        # Of the blocks of this rank: what was delivered, and what earlier runs have seen.
        self._ids, self._before = IdCount(), IdSet.of()
        if before is not None:
            whole = np.unique(collective.gather(np.flatnonzero(~before.splits), "whole splits"))
            parts = _deal(collective, before.seen.table, lambda rows: self._owner(rows >> 7), "before")
            self._before = IdSet.union(self._whole(whole), *map(IdSet, parts))

    def saw(self, ids: np.ndarray) -> None:
        """Adds the ids of a batch of this rank, int64 [batch]."""
        self._mine.append(ids)

    def exchange(self) -> None:
        """Sends the ids that the ranks were given since the last exchange to their owners."""
        mine, self._mine = np.concatenate([np.zeros(0, np.int64), *self._mine])[:, None], []
        self.count += int(self._collective.total([len(mine)], "audit count")[0])
        for part in _deal(self._collective, mine, lambda ids: self._owner(ids >> 16), "audit"):
            self._ids.add(part[:, 0])

    def rest(self, everywhere: bool) -> Rest | None:
        """The rest that can be read, None for nothing. Unless `everywhere`, rank 0 alone gets what of it was seen."""
        rest = self._left(self._known(self.bad), everywhere)
        return rest if rest.splits.any() else None

    def standing(self) -> Rest | None:
        """The rest for a later run, None for all, after an exchange; rank 0 alone gets what of it was seen."""
        self.exchange()
        return self._left(self._known(), False) if self.count or self.is_resumed else None

    def left(self) -> float:
        """Examples that can come and have not been seen up to the last exchange; infinite where that is not known."""
        known = self._collective.total([self._known(self.bad).per_split(1).sum()], "left")[0]
        return math.inf if self._expected is None else self._expected - known

    def missing(self) -> np.ndarray:
        """The ids that are left, int64, ascending; only where the sizes are known."""
        left = self._whole(np.arange(self._splits)) - self._known(self.bad)
        return np.sort(self._collective.gather(left.ids(), "missing"))

    def visits(self) -> Visits:
        """The account up to the last exchange."""
        sets = self._known(), self._ids.found, IdSet.union(self._ids.twice, self._before), self._known(self.bad)
        sums = self._collective.total([one.per_split(1).sum() for one in sets], "visits")
        known, found, again, all_of = map(int, sums)
        missing = None if self._expected is None else self._expected - all_of
        once, repeated, bad = known - again, found + again - known, all_of - known
        return Visits(self._expected, known - found, self.count, once, repeated, bad, missing, self.rereads)

    def _known(self, bad: ArrayLike = ()) -> IdSet:
        """The ids of this rank's blocks that were seen, or are among the `bad` ones."""
        ids = np.asarray(bad, np.int64)
        mine = IdSet.of(ids[self._owner(ids >> 16) == self._collective.rank])
        return IdSet.union(self._ids.found, self._before, mine)

    def _left(self, known: IdSet, everywhere: bool) -> Rest:
        """Returns what is left after the ids that are known to their owners."""
        together, counts, splits = self._collective, known.per_split(self._splits), np.ones(self._splits, bool)
        for at in range(0, len(self.sizes or ()), MOST):
            sums = together.total(counts[at : at + MOST], "rest splits")  # type: ignore[arg-type]
            splits[at : at + MOST] = np.array(sums) < (self.sizes or ())[at : at + MOST]
        table = known.table[splits[known.table[:, 0] >> 23]]
        whole = [together.gather(table.ravel(), "rest").reshape(-1, table.shape[1])] if everywhere else None
        seen = IdSet.union(IdSet.of(), *map(IdSet, whole or _deal(together, table, np.zeros_like, "rest")))
        return Rest(splits, seen)

    def _whole(self, splits: np.ndarray) -> IdSet:
        """The ids of this rank's blocks in some splits, int64 [n]. Raises DataError where their sizes are not known."""
        if self.sizes is None and splits.size:
            raise DataError("an earlier run has read whole splits, and their sizes are not known: give tfhet.json back")
        sizes = np.asarray(self.sizes or (), np.int64)[splits]
        return IdSet.whole(splits, sizes, lambda blocks: self._owner(blocks) == self._collective.rank)

    def _owner(self, blocks: np.ndarray) -> np.ndarray:
        """The rank of each block; neighbouring blocks of a split, and the first blocks of splits, have several."""
        return ((blocks >> 16) + blocks % (1 << 16)) % self._collective.size


def _deal(collective: Collective, table: np.ndarray, rank_of: Callable[..., Any], name: str) -> Iterator[np.ndarray]:
    """Sends each row of this rank's `table`, int64 [n, columns], to the rank that `rank_of` gives for its first column,
    and yields what comes to this one, in parts. Every rank must take all parts."""
    columns, alltoall = table.shape[1], getattr(collective, "alltoall", None)
    most = max(1, MOST // columns if alltoall else 8 * MOST // (columns * collective.size))
    for turn in range(int(collective.gather(np.array([-(-len(table) // most)]), f"{name} parts").max())):
        part = table[turn * most : (turn + 1) * most]
        ranks = rank_of(part[:, 0])
        if alltoall is None:
            every = collective.gather(np.column_stack([ranks, part]).ravel(), name).reshape(-1, 1 + columns)
            yield every[every[:, 0] == collective.rank, 1:]
        else:
            counts = columns * np.bincount(ranks, minlength=collective.size)
            yield alltoall(part[np.argsort(ranks, kind="stable")].ravel(), counts, name).reshape(-1, columns)
