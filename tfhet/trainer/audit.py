"""Which examples were seen: the audit of an epoch, by id over all ranks and parts, and the ledger in a checkpoint."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.errors import DataError
from tfhet.placement import Rest
from tfhet.source import Source, example_id, split_of
from tfhet.strategies import Collective

NOTHING = np.zeros(0, np.int64)
_BROKEN = (OSError, ValueError, KeyError, EOFError, TypeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""Errors that numpy raises for a damaged file."""


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
        return np.setdiff1d(_ids_of(np.flatnonzero(rest.splits), self.sizes), rest.seen, assume_unique=True)

    def visits(self) -> Visits:
        """The account up to the last exchange."""
        return Visits.of(self._all, self._expected, self._before, self.bad, self.rereads)


@dataclass(frozen=True, eq=False)
class Ledger:
    """The examples of an interrupted pass that a training had seen when its checkpoint was written.

    tf.data service cannot save where its readers are; the ids of what they delivered say the same. Whole splits are
    kept as one number each, so that the file grows with the splits that were open and not with the data.
    """

    fingerprint: str
    """Fingerprint of the source that the numbers belong to."""
    splits: np.ndarray
    """int64 [n]: the splits of which every example was seen."""
    ids: np.ndarray
    """int64 [m]: the examples that were seen of the other splits."""

    @classmethod
    def of(cls, fingerprint: str, seen: np.ndarray, sizes: Sequence[int] | None) -> Ledger:
        """seen: int64 ids, ascending, each once. sizes: examples in each split, where that is known."""
        if sizes is None:
            return cls(fingerprint, NOTHING, seen)
        counts = np.bincount(split_of(seen), minlength=len(sizes))
        whole = (counts > 0) & (counts == np.asarray(sizes))
        return cls(fingerprint, np.flatnonzero(whole).astype(np.int64), seen[~whole[split_of(seen)]])

    def seen(self, sizes: Sequence[int] | None) -> np.ndarray:
        """The ids, int64, ascending. Raises DataError when there are no such splits."""
        if self.splits.size and (sizes is None or int(self.splits.max()) >= len(sizes)):
            raise DataError("the ledger names splits that the source does not have")
        return np.unique(np.concatenate([self.ids, _ids_of(self.splits, sizes or ())]).astype(np.int64))

    def write(self, path: Path) -> None:
        with open(path, "wb") as file:
            np.savez_compressed(file, fingerprint=np.array(self.fingerprint), splits=self.splits, ids=self.ids)

    @classmethod
    def read(cls, path: Path) -> Ledger | None:
        """The ledger in a file; None where there is none. Raises DataError for a file that is no ledger."""
        try:
            with np.load(path) as file:
                return cls(str(file["fingerprint"]), file["splits"].astype(np.int64), file["ids"].astype(np.int64))
        except FileNotFoundError:
            return None
        except _BROKEN as error:
            raise DataError(f"the ledger {path} cannot be read: {error}", str(path)) from None


def _ids_of(splits: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The ids of all examples of some splits, int64."""
    return np.concatenate([NOTHING, *(example_id(int(split), 0) + np.arange(sizes[split]) for split in splits)])
