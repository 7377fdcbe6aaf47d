"""The rest of an epoch: the examples that are still to be read after some have been seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfhet.source import position_of, split_of


@dataclass(frozen=True, eq=False)
class Rest:
    """Splits that are still to be read, and the examples in them that have been seen."""

    splits: np.ndarray
    """bool [splits of the source]: whether a split is still to be read."""
    seen: np.ndarray
    """int64 [n], ascending: ids in those splits that are not read again."""

    @classmethod
    def after(cls, seen: np.ndarray, sizes: Sequence[int] | None, splits: int) -> Rest | None:
        """Returns what is left after the ids `seen` (int64, any order, repetitions allowed), or None for nothing.

        sizes: number of examples in each of the `splits` splits; None, where unknown, has every split read again.
        """
        ids = np.unique(np.asarray(seen, np.int64))
        if sizes is None:
            return cls(np.ones(splits, bool), ids)
        counts = np.bincount(split_of(ids), minlength=splits)
        open_ones = counts < np.asarray(sizes, np.int64)
        return cls(open_ones, ids[open_ones[split_of(ids)]]) if open_ones.any() else None

    def firsts(self) -> np.ndarray:
        """Returns the position of the first example of each split that has not been seen; int64 [splits]."""
        splits, positions = split_of(self.seen), position_of(self.seen)
        places = np.arange(len(self.seen)) - np.searchsorted(splits, splits)
        return np.bincount(splits[positions == places], minlength=len(self.splits)).astype(np.int64)

    @property
    def split_count(self) -> int:
        """Number of splits that are to be read."""
        return int(self.splits.sum())
