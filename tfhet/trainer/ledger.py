"""The ledger in a checkpoint: which examples of an interrupted pass were seen, in a file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfhet.errors import DataError
from tfhet.source import example_id, split_of

NOTHING = np.zeros(0, np.int64)
_BROKEN = (OSError, ValueError, KeyError, EOFError, TypeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""Errors that numpy raises for a damaged file."""


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
        return np.unique(np.concatenate([self.ids, ids_of(self.splits, sizes or ())]).astype(np.int64))

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


def ids_of(splits: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The ids of all examples of some splits, int64."""
    return np.concatenate([NOTHING, *(example_id(int(split), 0) + np.arange(sizes[split]) for split in splits)])
