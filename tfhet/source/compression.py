"""Compressed files: which compression a file has, and its content, unpacked as it is read."""

from __future__ import annotations

import zlib
from typing import Any

GZIP, ZLIB, PLAIN = "GZIP", "ZLIB", ""
"""TensorFlow's names of the compressions of TFRecord files."""
_WINDOW_BITS = {GZIP: 31, ZLIB: 15}
_PIECE_BYTES = 1 << 18
"""Bytes that are read from a file, and unpacked, at a time."""


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
