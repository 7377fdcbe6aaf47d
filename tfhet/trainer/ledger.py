"""The ledger in a checkpoint: which examples of an interrupted pass were seen, in a file."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfhet.errors import DataError
from tfhet.placement import Rest
from tfhet.source import IdSet

_BROKEN = (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""Errors that numpy raises for a damaged file."""
_NO_CONTEXT = TypeError, AttributeError
"""A file with one array is no context for `with`: to Python 3.10 that is an AttributeError. A TypeError may be both."""


@dataclass(frozen=True, eq=False)
class Ledger:
    """The examples of an interrupted pass that a training had seen when its checkpoint was written. tf.data service
    cannot save where its readers are; the ids of what they delivered say the same. The file has a byte for each split,
    and for the examples of splits that were open a bit each."""

    fingerprint: str
    """Fingerprint of the source that the numbers belong to."""
    rest: Rest

    def write(self, path: Path) -> None:
        np.savez(path, fingerprint=np.array(self.fingerprint), splits=self.rest.splits, seen=self.rest.seen.table)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """The ledger in a file. Raises DataError for a file that is no ledger."""
        try:
            with np.load(path) as file:
                seen = IdSet(file["seen"].astype(np.int64, casting="safe").reshape(-1, 9))
                return cls(str(file["fingerprint"]), Rest(file["splits"].astype(bool, casting="safe"), seen))
        except (*_BROKEN, *_NO_CONTEXT) as error:
            raise DataError(f"the ledger {path} cannot be read: {error}", str(path)) from None
