"""Reads files, TFRecords and the features of records into the core's memory, without TensorFlow.

    offsets, reason = kernels.record_offsets(path)
    records = kernels.read_files([path] * 64, offsets[:64], framed=True)
    images, labels = kernels.parse_examples(records, [("image", "bytes", 1), ("label", "int64", 1)])

Python's lock is not held while the core reads and parses.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tfhet.errors import DataError, UsageError, shown
from tfhet.kernels.contents import Contents
from tfhet.kernels.interface import DATA_LOSS, DENIED, INVALID, NOT_FOUND, Status, address
from tfhet.kernels.loader import library

Path: TypeAlias = "str | os.PathLike[str]"
Field: TypeAlias = tuple[str, str, int]
"""Name of a feature, its kind, and its number of values; of a raw feature its number of bytes."""
_KINDS: Mapping[str, tuple[int, Any]] = {
    "raw": (0, np.uint8),
    "int64": (1, np.int64),
    "float": (2, np.float32),
    "bytes": (3, np.uint64),
}
"""Kinds of features: their numbers in the C interface, and dtypes of their columns."""
_MOST = 10**15 - 1
"""Maximum size of a feature in a layout."""


class _Items(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("paths", "offsets", "lengths", "addresses", "sizes")),
        *(("framed", ctypes.c_int32), ("threads", ctypes.c_int32)),
    )


class _Column(ctypes.Structure):
    _fields_ = (("values", ctypes.c_void_p), ("lengths", ctypes.c_void_p), ("room", ctypes.c_int64))


class CoreMemory(ctypes.c_void_p):
    """Memory of the core, which is freed with this object."""

    def __init__(self) -> None:
        super().__init__()
        self._free = library().tfhet_memory_free

    def __del__(self) -> None:
        if self:
            self._free(self)


def file_wait_us() -> float:
    """Returns the mean microseconds for which the reading of an item waited for its file, in all calls of `read_files`
    of this process. Waits for a CPU or for Python's lock do not count."""
    waited_ns = ctypes.c_int64()
    items = library().tfhet_files_waited(ctypes.byref(waited_ns))
    return waited_ns.value / 1e3 / items if items else 0.0


def read_files(
    paths: Sequence[Path],
    offsets: np.ndarray | Sequence[int] | None = None,
    lengths: np.ndarray | Sequence[int] | None = None,
    *,
    framed: bool = False,
    threads: int = 1,
) -> Contents:
    """Reads local files, parts of files, or records of TFRecord files.

    Args:
        paths: File of each item, [n]. A file is opened once for items that follow each other.
        offsets: First byte of each item, int64 [n]; None: 0.
        lengths: Bytes of each item, int64 [n]; None or -1: to the end of the file, or of the record.
        framed: Whether each item is a record of a TFRecord file. Offsets and lengths then count its header and
            checksums, as `record_offsets` returns them; both checksums are verified, and the result is the data.
        threads: Number of threads that read.

    Returns:
        The bytes of each item, [n].

    Raises:
        DataError: A file is missing, cannot be read, is too short, or a record is broken; of several broken items
            the first. It has the path, and the byte if it is known.
        UsageError: Arguments do not fit.
    """
    core, size = library(), len(paths)
    names = _names(paths)
    begins, counts = _integers(offsets, "offsets", size), _integers(lengths, "lengths", size)
    addresses, sizes = np.empty(size, np.uint64), np.empty(size, np.int64)
    pointers = (ctypes.c_char_p * size)(*names)
    items, memory, status = _Items(size, ctypes.addressof(pointers)), CoreMemory(), Status()
    if begins is not None:
        items.offsets = address(begins)
    if counts is not None:
        items.lengths = address(counts)
    items.addresses, items.sizes, items.framed = address(addresses), address(sizes), bool(framed)
    items.threads = min(max(threads, 1), size)
    if core.tfhet_files_read(ctypes.byref(items), ctypes.byref(memory), ctypes.byref(status)):
        _refuse(status, os.fspath(paths[status.item]) if status.item >= 0 else None)
    return Contents(addresses, sizes, memory)


def parse_examples(records: Contents | Sequence[bytes], fields: Sequence[Field]) -> list[np.ndarray | Contents]:
    """Parses serialised `tf.train.Example`s.

    Args:
        records: Serialised examples, [n].
        fields: (name, kind, size) of each feature. Kinds: "raw" (one byte string of `size` bytes), "int64" and "float"
            (`size` values), "bytes" (`size` byte strings of any length).

    Returns:
        For each feature: uint8 [n, size], int64 [n, size], float32 [n, size]; or Contents [n * size], which share the
        memory of `records`.

    Raises:
        DataError: A record is no Example, or lacks a feature of this kind and size.
        UsageError: Arguments do not fit.
    """
    given, layout = Contents.of(records), _layout(tuple(map(tuple, fields)))
    size, columns, results = len(given), (_Column * len(fields))(), list[np.ndarray | Contents]()
    for column, (name, kind, count) in zip(columns, fields, strict=True):
        try:
            values: np.ndarray = np.empty((size, count), _KINDS[kind][1])
        except (MemoryError, ValueError):
            raise MemoryError(f"feature {name} of {size} records with {count} values does not fit the memory") from None
        column.values, column.room = address(values), values.nbytes
        if kind == "bytes":
            lengths: np.ndarray = np.empty(size * count, np.int64)
            column.lengths = address(lengths)
            results.append(Contents(values.reshape(-1), lengths, given))
        else:
            results.append(values)
    status = Status()
    if library().tfhet_examples_parse(
        *(size, address(given.addresses), address(given.lengths), layout, len(layout)),
        *(ctypes.byref(columns), len(columns), ctypes.byref(status)),
    ):
        if status.code == INVALID:
            raise DataError(status.message)
        status.refuse()
    return results


def record_offsets(path: Path) -> tuple[np.ndarray, str]:
    """Finds the records of a TFRecord file by their lengths, without reading their data.

    Args:
        path: Local file that is not compressed.

    Returns:
        int64 [records + 1]: the byte at which each record begins, and last the byte after them; and the reason why the
        file breaks off there, or "".

    Raises:
        DataError: The file is missing or cannot be read.
    """
    (name,) = _names([path])
    records, first, reason = ctypes.c_int64(), ctypes.POINTER(ctypes.c_int64)(), ctypes.c_char_p()
    memory, status = CoreMemory(), Status()
    if library().tfhet_records_offsets(name, *map(ctypes.byref, (records, first, reason, memory, status))):
        _refuse(status, os.fspath(path))
    return np.ctypeslib.as_array(first, (records.value + 1,)).copy(), (reason.value or b"").decode()


def _names(paths: Sequence[Path]) -> list[bytes]:
    """Returns paths as the system takes them."""
    if isinstance(paths, str | bytes):
        raise UsageError(f"paths are a list of files, not {shown(paths)}")
    encoding = sys.getfilesystemencoding()
    try:
        try:
            names = [path.encode(encoding, "surrogateescape") for path in paths]  # type: ignore[union-attr]
        except AttributeError:
            names = [os.fsencode(path) for path in paths]
    except TypeError as error:
        raise UsageError(f"paths are text: {error}") from None
    except UnicodeEncodeError as error:
        raise UsageError(f"the path {shown(error.object)} cannot be the name of a file") from None
    if b"\0" in b"".join(names):
        raise UsageError("a path has a zero byte")
    return names


def _integers(values: Any, name: str, size: int) -> np.ndarray | None:
    """Returns numbers as contiguous int64 [size]. Raises UsageError for others."""
    if values is None:
        return None
    array: np.ndarray = np.asarray(values)
    if array.shape != (size,) or (size and array.dtype.kind not in "iu"):
        raise UsageError(f"{name} are int64 [{size}], one for each path, not {array.dtype} {list(array.shape)}")
    return np.ascontiguousarray(array, np.int64)


@functools.lru_cache(maxsize=256)
def _layout(fields: tuple[Field, ...]) -> bytes:
    """Returns fields as the C interface reads them. Raises UsageError for wrong ones."""
    parts, names = [], set()
    for field in fields:
        try:
            name, kind, size = field
            encoded, number = name.encode(), _KINDS[kind][0]
        except (AttributeError, KeyError, TypeError, ValueError):
            kinds = ", ".join(_KINDS)
            raise UsageError(f"a field is (name, kind, size) with a kind of {kinds}; not {field!r}") from None
        if not isinstance(size, int) or not 1 <= size <= _MOST:
            raise UsageError(f"feature {name}: the size is an integer from 1 on, not {shown(size)}")
        if name in names:
            raise UsageError(f"feature {name} has two fields")
        names.add(name)
        parts.append(b"%d %d %d:%s" % (number, size, len(encoded), encoded))
    return b"".join(parts)


def _refuse(status: Status, path: str | None) -> NoReturn:
    if status.code in (NOT_FOUND, DENIED, DATA_LOSS):
        raise DataError(status.message, path, status.offset if status.offset >= 0 else None)
    status.refuse()
