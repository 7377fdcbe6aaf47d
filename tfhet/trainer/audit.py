"""The audit: which examples an epoch delivered, counted by id over all ranks and all parts in which it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tfhet.placement import Rest
from tfhet.source import Source, example_id
from tfhet.strategies import Collective

NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Visits:
    """What became of the examples of one epoch. `before` + `once` + `repeated` + `bad` + `missing` is `expected`."""

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
    """Ids never delivered, and nobody knows why; None where the number of examples is not known."""
    rereads: int
    """How often what was left of the epoch was read: 0 when nothing was lost on the way."""

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
        """Of several passes, at least one."""

        def added(name: str) -> int | None:
            values = [getattr(one, name) for one in visits]
            return None if None in values else sum(values)

        return cls(**{item.name: added(item.name) for item in fields(cls)})  # type: ignore[arg-type]


class Audit:
    """The ids of one epoch: this rank's since the last exchange, and all ranks' up to it."""

    def __init__(self, source: Source, before: np.ndarray | None = None, bad: np.ndarray | None = None):
        """before: ids that earlier runs have seen of the epoch; bad: ids whose records cannot be read; both int64 and
        the same on every rank."""
        self.rereads = 0
        self.goes_on = before is not None
        """Whether the epoch was begun by an earlier run."""
        self.bad = NOTHING if bad is None else bad
        self.sizes: Sequence[int] | None = source.split_sizes()
        """Examples in each split, where that is known."""
        self._splits = source.split_count()
        self._expected = source.example_count()
        self._before = NOTHING if before is None else before
        self._mine: list[np.ndarray] = []
        self._all: list[np.ndarray] = []

    def saw(self, ids: np.ndarray) -> None:
        """Adds the ids of a batch of this rank, int64 [batch]."""
        self._mine.append(ids)

    def exchange(self, collective: Collective) -> None:
        """Makes every rank's ids known to all; every rank must call it."""
        mine = np.concatenate(self._mine) if self._mine else NOTHING
        self._mine = []
        self._all.append(collective.gather(mine, "audit"))

    @property
    def count(self) -> int:
        """Examples delivered in this run up to the last exchange."""
        return sum(map(len, self._all))

    @property
    def seen(self) -> np.ndarray:
        """The ids seen up to the last exchange, by this run and earlier ones; int64, ascending."""
        return np.unique(np.concatenate([self._before, *self._all]))

    def rest(self) -> Rest | None:
        """What is left of the epoch and can be read; None when nothing is."""
        return Rest.after(np.concatenate([self.seen, self.bad]), self.sizes, self._splits)

    def missing(self) -> np.ndarray:
        """The ids that are left, int64, ascending; only where the sizes are known."""
        assert self.sizes is not None
        rest = self.rest()
        if rest is None:
            return NOTHING
        every = [example_id(int(split), 0) + np.arange(self.sizes[split]) for split in np.flatnonzero(rest.splits)]
        return np.setdiff1d(np.concatenate(every), rest.seen, assume_unique=True)

    def visits(self) -> Visits:
        """The account up to the last exchange."""
        ids = np.concatenate(self._all) if self._all else NOTHING
        return Visits.of(ids, self._expected, self._before, self.bad, self.rereads)
