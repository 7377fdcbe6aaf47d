"""Finds records in TFRecord files by their framing, and says what is wrong with a broken one.

The module `encoding` says what a record consists of.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tfhet import native
from tfhet.errors import DataError, UsageError
from tfhet.extras import tensorflow as tf
from tfhet.source import object_store
from tfhet.source.encoding import checksum
from tfhet.source.files import exists, is_local, opened

GZIP, ZLIB, PLAIN = "GZIP", "ZLIB", ""
"""TensorFlow's names of the compressions of TFRecord files."""
_WINDOW_BITS = {GZIP: 31, ZLIB: 15}
_PIECE_BYTES = 1 << 18
"""Bytes that are read from a file, and unpacked, at a time."""
HEADER_BYTES = 12
FOOTER_BYTES = 4
ENDS = "the file ends before this record"
"""Result of `fault` for a place after the last record."""
_UNPACKED = "; this file is compressed, and the byte counts in its unpacked content"


class Frame(NamedTuple):
    """One record in a file. The compiled core (kernels/records.h) checks the same framing."""

    offset: int
    """Byte at which the record starts, header included."""
    length: int
    """Bytes of its data."""

    @property
    def end(self) -> int:
        """Byte after the record."""
        return self.offset + HEADER_BYTES + self.length + FOOTER_BYTES


def reach(files: Sequence[str], most: int = 1 << 62, compressed: str | None = None) -> list[tuple[int, int, bool]]:
    """Returns for each file how many records can be reached by their lengths, at most `most`, the byte after the last
    of them, and whether the file ends there. Compiled code does it for local files that are not compressed, far faster
    than `walk`. Bytes count the content of a compressed file. compressed: the expected result of `compression` for all
    files; None for any.

    Raises UsageError for a missing file, or one that is compressed in another way, DataError for one that cannot be
    opened.
    """
    ops = None if any("://" in file for file in files) else native.ops("records")
    if ops is None:
        return [_reached(file, most, compressed) for file in files]
    counts, ends, sizes = (tensor.numpy().tolist() for tensor in ops.tfhet_walk_records(files, most))
    found = zip(files, counts, ends, sizes, strict=True)
    # A compressed file has no record for the compiled code.
    return [
        (count, end, end == size) if count and not compressed else _reached(file, most, compressed)
        for file, count, end, size in found
    ]


def _reached(file: str, most: int, compressed: str | None) -> tuple[int, int, bool]:
    if compressed is not None and (found := compression(file)) != compressed:
        words = f"{found or 'not compressed'}, and files before it are {compressed or 'not compressed'}"
        raise UsageError(f"{file} is {words}: compress all files of a data set alike, or none")
    count, end, frames = 0, 0, walk(file)
    try:
        for frame in itertools.islice(frames, most):
            count, end = count + 1, frame.end
        return count, end, next(frames, None) is None
    except DataError as error:
        if error.offset is None:
            raise
        return count, end, False


def walk(file: str, offset: int = 0) -> Iterator[Frame]:
    """Yields the place of every record from byte `offset` on by seeking from length to length, without their data; in
    a compressed file, the place in its content. Raises UsageError for a missing file, DataError (path, offset) for an
    early end or a length with a wrong checksum."""
    with opened_content(file) as stream:
        size = _size(stream)
        while size is None or offset < size:
            frame = _frame(stream, offset, size)
            if frame == ENDS:
                return
            if isinstance(frame, str):
                raise DataError(f"{file} is broken at byte {offset}: {frame}", path=file, offset=offset)
            yield frame
            offset = frame.end


def offsets(file: str, most: int | None = None) -> list[int]:
    """Returns the byte at which each readable record starts, and last the byte at which the file ends or breaks off;
    [0] for a file that cannot be opened. most: number of records that are walked at most; None for all."""
    found = [0]
    with contextlib.suppress(UsageError, DataError):
        found.extend(frame.end for frame in itertools.islice(walk(file), most))
    return found


def fault(file: str, offset: int) -> str | None:
    """Says what is wrong with the record that starts at this byte, its data's checksum included; None when nothing is.
    Raises UsageError for a missing file, DataError for one that cannot be opened."""
    with opened_content(file) as stream:
        size = _size(stream)
        if size is not None and offset >= size:
            return ENDS
        frame = _frame(stream, offset, size)
        if isinstance(frame, str):
            return frame
        stream.seek(offset + HEADER_BYTES)
        data, footer = stream.read(frame.length), stream.read(FOOTER_BYTES)
    stored, computed = struct.unpack("<I", footer)[0], checksum(data)
    if stored != computed:
        return f"the data's checksum is {computed:#010x}, stored is {stored:#010x} ({frame.length} bytes of data)"
    return None


def compression(file: str) -> str:
    """Returns how a file is compressed: "GZIP", "ZLIB", or "" for a plain one, and for one that cannot be opened."""
    is_own = is_local(file) or object_store.is_url(file)
    errors = (UsageError, DataError) if is_own else (UsageError, DataError, tf.errors.OpError)
    with contextlib.suppress(*errors), opened_content(file) as stream:
        return stream.compression if isinstance(stream, Unpacked) else PLAIN
    return PLAIN


def _frame(stream: Any, offset: int, size: int | None) -> Frame | str:
    """Returns the record that starts at this byte of `size` bytes (None: unknown), or says what is wrong with it."""
    found = _framed(stream, offset, size)
    if size is not None or isinstance(found, Frame) or (found == ENDS and not stream.fault):
        return found
    return f"{stream.fault or found}{_UNPACKED}"


def _framed(stream: Any, offset: int, size: int | None) -> Frame | str:
    stream.seek(offset)
    header = stream.read(HEADER_BYTES)
    if not header:
        return ENDS
    if len(header) < HEADER_BYTES:
        return f"the file ends inside a record's header, {len(header)} bytes into it"
    if not _is_sound(header):
        return "the length's checksum is wrong" + (": is this a TFRecord file?" if offset == 0 else "")
    frame = Frame(offset, int.from_bytes(header[:8], "little"))
    early = frame.end - (stream.seek(frame.end) if size is None else size)
    return f"the file ends inside a record, {early} bytes too early" if early > 0 else frame


def _is_sound(header: bytes) -> bool:
    return len(header) == HEADER_BYTES and checksum(header[:8]) == int.from_bytes(header[8:], "little")


def _size(stream: Any) -> int | None:
    """Number of bytes; None for a compressed file, whose content has an unknown size until it is unpacked."""
    if isinstance(stream, Unpacked):
        return None
    return int(stream.seek(0, io.SEEK_END) if isinstance(stream, io.IOBase) else stream.size())


@contextlib.contextmanager
def opened_content(file: str) -> Iterator[Any]:
    """Opens a file, and a compressed one as `Unpacked`. Raises UsageError for a missing file, DataError for one that
    cannot be opened."""
    if not exists(file):
        raise UsageError(f"no such TFRecord file: {file}")
    try:
        is_own = is_local(file) or object_store.is_url(file)
        stream = opened(file) if is_own else tf.io.gfile.GFile(file, "rb")
    except OSError as error:
        raise DataError(f"cannot open {file}: {error.strerror}", path=file) from None
    with stream:
        head = stream.read(HEADER_BYTES)
        stream.seek(0)
        found = PLAIN if _is_sound(head) else compression_of(head)
        yield Unpacked(stream, found) if found else stream


def compression_of(head: bytes) -> str:
    """Returns GZIP, ZLIB or PLAIN for a file that begins with `head`, by RFC 1952 and RFC 1950, 2.2."""
    if head[:2] == b"\x1f\x8b":
        return GZIP
    return ZLIB if len(head) > 1 and head[0] & 0x8F == 8 and int.from_bytes(head[:2], "big") % 31 == 0 else PLAIN


class Unpacked:
    """The content of a compressed file, from the stream of its bytes. Going back unpacks from the beginning again."""

    def __init__(self, stream: Any, compression: str):
        self.fault = ""
        """The damage of the file, once reading has come to it; reading takes that place for the content's end."""
        self.compression = compression
        self._stream = stream
        self._at, self._next, self._held = 0, 0, b""
        self._machine = zlib.decompressobj(_WINDOW_BITS[compression])

    def read(self, size: int) -> bytes:
        """Returns the next `size` bytes; fewer at the end."""
        parts = []
        while size and (self._next < len(self._held) or self._unpack()):
            part = self._held[self._next : self._next + size]
            self._next, self._at, size = self._next + len(part), self._at + len(part), size - len(part)
            parts.append(part)
        return b"".join(parts)

    def seek(self, offset: int) -> int:
        """Goes to a byte, or to the end of shorter content; returns the byte that was reached."""
        if offset < self._at:
            self._stream.seek(0)
            self._at, self._next, self._held = 0, 0, b""
            self._machine = zlib.decompressobj(_WINDOW_BITS[self.compression])
        while self._at < offset and self.read(min(offset - self._at, _PIECE_BYTES)):
            pass
        return self._at

    def _unpack(self) -> bool:
        """Holds the next piece of the content; returns False at its end."""
        self._next, self._held = 0, b""
        while not self._held and not self.fault:
            ended = self._machine.eof
            packed = self._machine.unused_data if ended else self._machine.unconsumed_tail
            packed = packed or self._stream.read(_PIECE_BYTES)
            if ended:
                if not packed or self.compression != GZIP:
                    break
                self._machine = zlib.decompressobj(_WINDOW_BITS[GZIP])  # members of a gzip file follow one another
            try:
                self._held = self._machine.decompress(packed, _PIECE_BYTES)
            except zlib.error as error:
                self.fault = f"its {self.compression} stream is broken ({error})"
            if not packed and not self._held and not self._machine.eof:
                self.fault = self.fault or f"it ends inside its {self.compression} stream, so it was cut"
        return bool(self._held)
