"""Encodes examples as `tf.train.Example`, and records as TFRecord files hold them: TensorFlow's bytes, without it.

An Example is a message of protocol buffers (tensorflow/core/example/example.proto, feature.proto). A record is: length
(uint64), checksum of the length (uint32), data, checksum of the data (uint32), little-endian. A checksum is CRC-32C,
rotated right by 15 bits, plus 0xa282ead8 (tensorflow/core/lib/io/record_writer.h, tensorflow/core/lib/hash/crc32c.h).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

import google_crc32c
import numpy as np

_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3
"""Field numbers in the message Feature."""


def checksum(data: bytes | np.ndarray) -> int:
    """Returns the checksum of some bytes as TFRecord files store it."""
    crc = google_crc32c.value(data)  # reads any buffer
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_record(stream: BinaryIO, data: bytes) -> None:
    """Appends a record to a TFRecord file: `data` with its length and checksums."""
    length = struct.pack("<Q", len(data))
    stream.write(length + struct.pack("<I", checksum(length)))
    stream.write(data)
    stream.write(struct.pack("<I", checksum(data)))


def example(features: Mapping[str, bytes]) -> bytes:
    """Returns a serialised `tf.train.Example` of serialised features, by name, in the order of their names."""
    named = [(name.encode(), value) for name, value in features.items()]
    named.sort(key=lambda each: each[0] + b"\xff")  # as protobuf: of two names that begin alike, the longer one first
    parts: list[bytes] = []
    for name, value in named:
        key = _message(1, [name]) + _head(2, len(value))
        parts += [_head(1, len(key) + len(value)), key, value]
    return _message(1, parts)


def bytes_feature(values: Iterable[bytes]) -> bytes:
    """Returns a serialised `tf.train.Feature` of byte strings."""
    return _message(_BYTES_LIST, [part for value in values for part in (_head(1, len(value)), value)])


def float_feature(values: np.ndarray) -> bytes:
    """Returns a serialised `tf.train.Feature` of floats [n], stored as float32."""
    packed = values.astype("<f4").tobytes()
    return _message(_FLOAT_LIST, [_head(1, len(packed)), packed] if packed else [])


def int64_feature(values: np.ndarray) -> bytes:
    """Returns a serialised `tf.train.Feature` of integers [n], stored as int64."""
    packed = _varint(int(values[0]) % 2**64) if len(values) == 1 else _varints(values)  # most are labels
    return _message(_INT64_LIST, [_head(1, len(packed)), packed] if packed else [])


def _message(number: int, parts: Sequence[bytes]) -> bytes:
    """A field of a message whose content is these bytes; they are copied once."""
    return b"".join((_head(number, sum(map(len, parts))), *parts))


def _head(number: int, size: int) -> bytes:
    """The beginning of a field whose content has a size: bytes, a string, a message, or packed numbers."""
    return bytes([number << 3 | 2]) + _varint(size)


def _varint(number: int) -> bytes:
    """A number in groups of 7 bits, the lowest first; each byte but the last one has the upper bit set."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _varints(values: np.ndarray) -> bytes:
    """The same of integers [n], one after the other."""
    rest = values.astype(np.int64).view(np.uint64)[:, np.newaxis] >> np.arange(0, 64, 7, dtype=np.uint64)
    digits = rest & 0x7F | (rest > 0x7F) * np.uint64(0x80)
    is_used = rest > 0
    is_used[:, 0] = True
    return digits[is_used].astype(np.uint8).tobytes()
