"""Reading of the records of TFRecord files in any order, without TensorFlow."""

from __future__ import annotations

import ctypes
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tfhet import kernels
from tfhet.errors import DataError, UsageError
from tfhet.source import examples, object_store
from tfhet.source.encoding import checksum
from tfhet.source.feature import Feature
from tfhet.source.files import READERS, REMOTE_READERS, is_local, is_remote
from tfhet.source.framing import FOOTER_BYTES, HEADER_BYTES, offsets, walk
from tfhet.source.index_file import IndexRequest, indexed
from tfhet.source.source import example_id, position_of, split_of
from tfhet.source.unpacked import unpacked

_VERSION = 1
"""Version of the index of an object's records; other versions are made again."""


class RecordLoading:
    """Base class of `TFRecordSource`."""

    files: tuple[str, ...]
    features: dict[str, Feature]
    on_bad_record: str
    numbers: tuple[int, ...]
    _listed: dict[str, int]
    compression: Any

    def can_load(self) -> bool:
        """Whether the core or `object_store` reads these files, and the features need no TensorFlow."""
        are_read = all(is_local(file) or object_store.is_url(file) for file in self.files)
        return are_read and self.on_bad_record == "fail" and examples.can_load(self.features)

    @property
    def can_stream(self) -> bool:
        """Whether TensorFlow can read these files."""
        return not any(object_store.is_url(file) and not file.startswith("gs://") for file in self.files)

    @functools.cached_property
    def is_remote(self) -> bool:
        """See `Indexed`. Compressed objects are unpacked on this host."""
        return is_remote(self.files) and not self.compression

    def sizes(self) -> np.ndarray:
        """Returns the number of records of each file, int64 [files]. Raises DataError, with path and byte, for a file
        that is broken, or has fewer records than `tfhet.json` lists: its examples would be missing silently."""
        return np.array([len(starts) - 1 for starts in self._starts], np.int64)

    def checked_sizes(self) -> dict[str, int]:
        """Returns the number of records of each file, after a check of the first record.

        Raises:
            UsageError: There is no record, or the features or `on_bad_record` need TensorFlow.
            DataError: A file is broken, or the record does not have the features.
        """
        if not self.can_load():
            raise UsageError(
                f"TensorFlow cannot read {self.files[0]}: use on_bad_record='fail', and no texts or features of "
                "tf.io; or copy the files to the host"
            )
        sizes = self.sizes()
        if not sizes.sum():
            raise UsageError(f"no records in {len(self.files)} files, the first of them {self.files[0]}")
        self.load(np.array([example_id(int(np.flatnonzero(sizes)[0]), 0)], np.int64))
        return dict(zip(self.files, sizes.tolist(), strict=True))

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns the features of these ids, int64 [n], without TensorFlow. Raises DataError with path and byte."""
        places = list(zip(split_of(ids).tolist(), position_of(ids).tolist(), strict=True))
        for split, place in places:
            if place >= (records := len(self._starts[split]) - 1):
                raise DataError(f"{self.files[split]} has {records} records, so it lacks record {place}")
        values = examples.load(self._records(places), self.features)
        if self.numbers:
            labels = values["label"]
            if wrong := labels[(labels < 0) | (labels >= len(self.numbers))].tolist():
                raise DataError(f"a label is not from 0 to {len(self.numbers) - 1}: {wrong[:16]}")
            values["label"] = np.array(self.numbers, labels.dtype)[labels]
        return values

    def _records(self, places: list[tuple[int, int]]) -> kernels.Contents:
        """Returns the data of records by (split, position)."""
        offsets = np.array([self._starts[split][place] for split, place in places], np.int64)
        files = [self._plain_files[split] for split, _ in places]
        if self.is_remote:
            ends = np.array([self._starts[split][place + 1] for split, place in places], np.int64)
            tags = [self._indexes[split][1] for split, _ in places]
            return _data_of(object_store.read(files, offsets, ends - offsets, tags), files, offsets)
        try:
            return kernels.read_files(files, offsets, framed=True, threads=READERS)
        except DataError as error:
            if not self.compression or error.path not in self._plain_files:
                raise
            file = self.files[self._plain_files.index(error.path)]
            raise DataError(f"{error}, the unpacked copy of {file}", file, error.offset) from None

    def _offsets(self, split: int, most: int) -> list[int]:
        """Returns what `framing.offsets` does, of an object by its index."""
        return self._starts[split].tolist() if self.is_remote else offsets(self.files[split], most)

    @functools.cached_property
    def _plain_files(self) -> tuple[str, ...]:
        """The files without compression."""
        return unpacked(self.files, self.compression) if self.compression else self.files

    @functools.cached_property
    def _starts(self) -> list[np.ndarray]:
        """The bytes at which the records of each file start, and its end, int64 [records + 1] of each file."""
        for file, (starts, _, reason) in zip(self.files, self._indexes, strict=True):
            count, end, listed = len(starts) - 1, int(starts[-1]), self._listed.get(file, 0)
            if not reason and count < listed:
                reason = f"the file ends after {count} records, and tfhet.json lists {listed}"
            if reason:
                raise DataError(f"{file} is broken at byte {end}: {reason}", file, end)
        return [starts for starts, *_ in self._indexes]

    @functools.cached_property
    def _indexes(self) -> list[tuple[np.ndarray, str, str]]:
        """What `_starts` returns of each file, the version of its object, and why the file breaks off, or ""."""
        with ThreadPoolExecutor(REMOTE_READERS if self.is_remote else os.cpu_count()) as pool:
            return list(pool.map(_index_of, self._plain_files))


def _index_of(file: str) -> tuple[np.ndarray, str, str]:
    if is_local(file):
        starts, reason = kernels.record_offsets(file)
        return starts, "", reason
    columns, tag = indexed(index_request(file))
    return columns[0], tag, ""


def index_request(file: str) -> IndexRequest:
    """Returns the request for the index of the records of an object."""

    def make() -> list[np.ndarray]:
        return [np.array([0, *(each.end for each in walk(file))], np.int64)]

    return IndexRequest(file, ("starts",), [_VERSION, "records"], make)


def _data_of(records: kernels.Contents, files: list[str], offsets: np.ndarray) -> kernels.Contents:
    """Returns the data of records after a check of their headers and checksums."""
    for address, size, file, offset in zip(records.addresses, records.lengths, files, offsets.tolist(), strict=True):
        content = np.ctypeslib.as_array((ctypes.c_uint8 * int(size)).from_address(int(address)))
        length, footer = content[:HEADER_BYTES].tobytes(), content[-FOOTER_BYTES:].tobytes()
        data = content[HEADER_BYTES:-FOOTER_BYTES]
        if int.from_bytes(length[:8], "little") != len(data) or checksum(length[:8]) != int.from_bytes(
            length[8:], "little"
        ):
            reason = "the record has another length than in its index"
        elif checksum(data) != int.from_bytes(footer, "little"):
            reason = "the data's checksum is wrong"
        else:
            continue
        raise DataError(f"{file} is broken at byte {offset}: {reason}", file, offset)
    addresses = records.addresses + np.uint64(HEADER_BYTES)
    return kernels.Contents(addresses, records.lengths - HEADER_BYTES - FOOTER_BYTES, records)
