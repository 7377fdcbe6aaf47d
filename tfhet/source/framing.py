"""Finds records in TFRecord files by their framing, and the first one that is broken.

A record is: length (uint64), checksum of the length (uint32), data, checksum of the data (uint32), little-endian. A
checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8 (tensorflow/core/lib/io/record_writer.h and
tensorflow/core/lib/hash/crc32c.h).
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from tfhet.errors import DataError, UsageError

HEADER_BYTES = 12
FOOTER_BYTES = 4
ENDS = "the file ends before this record"
"""What `fault` returns for a place after the last record."""
_GZIP = "is compressed with gzip"


class Corruption(NamedTuple):
    """The first broken record of a file."""

    file: str
    offset: int
    """Byte at which the broken record starts."""
    reason: str


class Frame(NamedTuple):
    """One record in a file."""

    offset: int
    """Byte at which the record starts, header included."""
    length: int
    """Bytes of its data."""

    @property
    def end(self) -> int:
        """Byte after the record."""
        return self.offset + HEADER_BYTES + self.length + FOOTER_BYTES


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # Castagnoli's polynomial, reflected
        table.append(byte)
    return tuple(table)


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C (RFC 3720, appendix B.4); about 10 MB/s, so for headers and single records."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """The form in which a TFRecord stores a checksum."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def walk(file: str) -> Iterator[Frame]:
    """Yields the place of every record by seeking from length to length; the data are not read.

    Raises UsageError for a missing file, DataError (path, offset) for a wrong checksum of a length or a file that ends
    inside a record.
    """
    with _opened(file) as stream:
        size, offset = _size(stream), 0
        while offset < size:
            frame = _frame(stream, offset, size)
            if isinstance(frame, str):
                if frame == _GZIP:
                    raise UsageError(f"{file} {_GZIP}: write it uncompressed, or unpack it")
                raise DataError(f"{file} is broken at byte {offset}: {frame}", path=file, offset=offset)
            yield frame
            offset = frame.end


def offsets(file: str) -> list[int]:
    """Returns the byte at which each readable record starts, and last the byte at which the file ends or breaks off.

    [0] for a file that cannot be opened.
    """
    found = [0]
    with contextlib.suppress(UsageError, DataError):
        found.extend(frame.end for frame in walk(file))
    return found


def fault(file: str, offset: int) -> str | None:
    """Says what is wrong with the record that starts at this byte, its data's checksum included; None when nothing is.

    Raises UsageError for a missing file, DataError for one that cannot be opened.
    """
    with _opened(file) as stream:
        size = _size(stream)
        if offset >= size:
            return ENDS
        frame = _frame(stream, offset, size)
        if isinstance(frame, str):
            return frame
        stream.seek(offset + HEADER_BYTES)
        data, footer = stream.read(frame.length), stream.read(FOOTER_BYTES)
    stored, computed = struct.unpack("<I", footer)[0], masked(crc32c(data))
    if stored != computed:
        return f"the data's checksum is {computed:#010x}, stored is {stored:#010x} ({frame.length} bytes of data)"
    return None


def corruption(files: Iterable[str | os.PathLike[str]]) -> Corruption | None:
    """Returns the first broken record of the first broken file, or None when every checksum is right.

    Reads all files; names the record after TensorFlow reported DataLossError. Raises UsageError for a missing file.
    """
    for path in files:
        file = os.fspath(path)
        frames: list[Frame] = []
        broken = None
        try:
            frames.extend(walk(file))  # keeps what came before the error
        except DataError as error:
            broken = error
        # TensorFlow's reader checks the data at the speed of the disk; it stops before the first bad record.
        good = _readable(file)
        if good < len(frames):
            offset = frames[good].offset
            unknown = "TensorFlow cannot read it, although its checksums are right"
            return Corruption(file, offset, fault(file, offset) or unknown)
        if broken is not None:
            return Corruption(file, broken.offset or 0, str(broken))
    return None


def _readable(file: str) -> int:
    count = 0
    try:
        for _ in tf.data.TFRecordDataset(file):
            count += 1
    except tf.errors.DataLossError:
        pass
    return count


def _frame(stream: Any, offset: int, size: int) -> Frame | str:
    """Returns the record that starts at this byte of a file of `size` bytes, or says what is wrong with its framing."""
    stream.seek(offset)
    header = stream.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return f"the file ends inside a record's header, {len(header)} bytes into it"
    length, checksum = struct.unpack("<QI", header)
    if masked(crc32c(header[:8])) != checksum:
        if offset == 0 and header[:2] == b"\x1f\x8b":
            return _GZIP
        return "the length's checksum is wrong" + (": is this a TFRecord file?" if offset == 0 else "")
    frame = Frame(offset, length)
    early = frame.end - size
    return f"the file ends inside a record, {early} bytes too early" if early > 0 else frame


def _size(stream: Any) -> int:
    return stream.seek(0, io.SEEK_END) if isinstance(stream, io.IOBase) else stream.size()


def _opened(file: str) -> Any:
    if not tf.io.gfile.exists(file):
        raise UsageError(f"no such TFRecord file: {file}")
    if "://" in file:
        return tf.io.gfile.GFile(file, "rb")
    try:
        return open(file, "rb")
    except OSError as error:
        raise DataError(f"cannot open {file}: {error.strerror}", path=file) from None
