"""Reading of the records of TFRecord files in any order, without TensorFlow."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tfhet import kernels
from tfhet.errors import DataError
from tfhet.source import examples
from tfhet.source.feature import Feature
from tfhet.source.files import is_local
from tfhet.source.source import position_of, split_of

READERS = 4
"""Number of records that are read at the same time: a file system on the network answers each after a while."""


class RecordLoading:
    """Base class of `TFRecordSource`."""

    files: tuple[str, ...]
    features: dict[str, Feature]
    on_bad_record: str
    numbers: tuple[int, ...]
    _listed: dict[str, int]
    compression: Any

    def can_load(self) -> bool:
        """Whether these are local files without compression and with features that need no TensorFlow."""
        is_plain = all(map(is_local, self.files)) and not self.compression and self.on_bad_record == "fail"
        return is_plain and examples.can_load(self.features)

    def sizes(self) -> np.ndarray:
        """Returns the number of records of each file, int64 [files]. Raises DataError, with path and byte, for a file
        that is broken, or has fewer records than `tfhet.json` lists: its examples would be missing silently."""
        return np.array([len(starts) - 1 for starts in self._starts], np.int64)

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns the features of these ids, int64 [n], without TensorFlow. Raises DataError with path and byte."""
        places = list(zip(split_of(ids).tolist(), position_of(ids).tolist(), strict=True))
        for split, place in places:
            if place >= (records := len(self._starts[split]) - 1):
                raise DataError(f"{self.files[split]} has {records} records, so it lacks record {place}")
        offsets = np.array([self._starts[split][place] for split, place in places], np.int64)
        files = [self.files[split] for split, _ in places]
        values = examples.load(kernels.read_files(files, offsets, framed=True, threads=READERS), self.features)
        if self.numbers:
            labels = values["label"]
            if wrong := labels[(labels < 0) | (labels >= len(self.numbers))].tolist():
                raise DataError(f"a label is not from 0 to {len(self.numbers) - 1}: {wrong[:16]}")
            values["label"] = np.array(self.numbers, labels.dtype)[labels]
        return values

    @functools.cached_property
    def _starts(self) -> list[np.ndarray]:
        """The bytes at which the records of each file start, and its end, int64 [records + 1] of each file."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(kernels.record_offsets, self.files))
        for file, (starts, reason) in zip(self.files, found, strict=True):
            count, end, listed = len(starts) - 1, int(starts[-1]), self._listed.get(file, 0)
            if not reason and count < listed:
                reason = f"the file ends after {count} records, and tfhet.json lists {listed}"
            if reason:
                raise DataError(f"{file} is broken at byte {end}: {reason}", file, end)
        return [starts for starts, _ in found]
