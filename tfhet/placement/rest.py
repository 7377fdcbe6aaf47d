"""The rest of an epoch: what is still to be read of it when some examples have been seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfhet.source import split_of


@dataclass(frozen=True, eq=False)
class Rest:
    """Splits that are still to be read, and the examples in them that are not."""

    splits: np.ndarray
    """bool [splits of the source]: which to read."""
    seen: np.ndarray
    """int64 [n], ascending: the ids in those splits that are left out."""

    @classmethod
    def after(cls, seen: np.ndarray, sizes: Sequence[int] | None, splits: int) -> Rest | None:
        """What is left when the ids `seen` (int64, in any order, repetitions allowed) have been; None: nothing.

        sizes: examples in each of the `splits` splits. Where that is not known, every split is to be looked through.
        """
        ids = np.unique(np.asarray(seen, np.int64))
        if sizes is None:
            return cls(np.ones(splits, bool), ids)
        counts = np.bincount(split_of(ids), minlength=splits)
        open_ones = counts < np.asarray(sizes, np.int64)
        return cls(open_ones, ids[open_ones[split_of(ids)]]) if open_ones.any() else None

    @property
    def split_count(self) -> int:
        """How many splits are to be read."""
        return int(self.splits.sum())
