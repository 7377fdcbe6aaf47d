"""The audit of an epoch: which examples were seen, by id over all ranks and parts, and how often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tfhet.placement import Rest
from tfhet.source import Source
from tfhet.strategies import Collective
from tfhet.trainer.ledger import NOTHING, ids_of


@dataclass(frozen=True)
class Visits:
    """Numbers of the examples of one epoch: `before` + `once` + `repeated` + `bad` + `missing` is `expected`."""

    expected: int | None
    """Examples in the source; None where that is not known."""
    before: int
    """Ids that earlier runs of this training had seen of the epoch."""
    seen: int
    """Examples delivered in this run, repetitions included."""
    once: int
    """Ids delivered exactly once, in this run, and not before."""
    repeated: int
    """Ids delivered more than once, or again."""
    bad: int
    """Ids never delivered because their records cannot be read."""
    missing: int | None
    """Ids never delivered for an unknown reason; None where the number of examples is not known."""
    rereads: int
    """Number of times that the rest of the epoch was read: 0 when nothing was lost on the way."""

    @classmethod
    def of(
        cls,
        ids: np.ndarray,
        expected: int | None,
        before: np.ndarray = NOTHING,
        bad: np.ndarray = NOTHING,
        rereads: int = 0,
    ) -> Visits:
        """Counts the int64 `ids` of this run, those of earlier ones, and those known to be bad."""
        earlier = np.unique(before)
        found, counts = np.unique(ids, return_counts=True)
        again = (counts > 1) | np.isin(found, earlier, assume_unique=True)
        known = np.union1d(found, earlier)
        lost = len(np.setdiff1d(bad, known))
        return cls(
            expected=expected,
            before=int((~np.isin(earlier, found[again], assume_unique=True)).sum()),
            seen=len(ids),
            once=int((~again).sum()),
            repeated=int(again.sum()),
            bad=lost,
            missing=None if expected is None else expected - len(known) - lost,
            rereads=rereads,
        )

    @classmethod
    def total(cls, visits: Sequence[Visits]) -> Visits:
        """The sums over several passes, at least one."""
        columns = {item.name: [getattr(one, item.name) for one in visits] for item in fields(cls)}
        sums: dict[str, Any] = {name: None if None in values else sum(values) for name, values in columns.items()}
        return cls(**sums)


class Audit:
    """The ids of one epoch: this rank's since the last exchange, and all ranks' up to it."""

    def __init__(self, source: Source, before: np.ndarray | None = None, bad: np.ndarray | None = None):
        """before: ids that earlier runs have seen of the epoch; bad: ids whose records cannot be read; both int64 and
        the same on every rank."""
        self.rereads = 0
        self.is_resumed = before is not None
        """Whether the epoch was begun by an earlier run."""
        self.bad = NOTHING if bad is None else bad
        self.sizes: Sequence[int] | None = source.split_sizes()
        """Examples in each split, where that is known."""
        self._splits, self._expected = source.split_count(), source.example_count()
        self._before = NOTHING if before is None else before
        self._mine: list[np.ndarray] = []
        self._all = NOTHING

    def saw(self, ids: np.ndarray) -> None:
        """Adds the ids of a batch of this rank, int64 [batch]."""
        self._mine.append(ids)

    def exchange(self, collective: Collective) -> None:
        """Makes every rank's ids known to all; every rank must call it."""
        mine, self._mine = np.concatenate([NOTHING, *self._mine]), []
        self._all = np.concatenate([self._all, collective.gather(mine, "audit")])

    @property
    def count(self) -> int:
        """Examples delivered in this run up to the last exchange."""
        return len(self._all)

    @property
    def left(self) -> float:
        """Examples that can come and have not been seen up to the last exchange; infinite where that is not known."""
        known = len(self.seen) + len(self.bad)
        return math.inf if self._expected is None else self._expected - known

    @property
    def seen(self) -> np.ndarray:
        """The ids seen up to the last exchange, by this run and earlier ones; int64, ascending."""
        return np.unique(np.concatenate([self._before, self._all]))

    def rest(self) -> Rest | None:
        """The rest of the epoch that can be read; None when nothing is left."""
        return Rest.after(np.concatenate([self.seen, self.bad]), self.sizes, self._splits)

    def missing(self) -> np.ndarray:
        """The ids that are left, int64, ascending; only where the sizes are known."""
        assert self.sizes is not None
        rest = self.rest()
        if rest is None:
            return NOTHING
        return np.setdiff1d(ids_of(np.flatnonzero(rest.splits), self.sizes), rest.seen, assume_unique=True)

    def visits(self) -> Visits:
        """The account up to the last exchange."""
        return Visits.of(self._all, self._expected, self._before, self.bad, self.rereads)
