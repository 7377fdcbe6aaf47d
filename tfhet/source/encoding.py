"""Encodes examples as `tf.train.Example`, and records as TFRecord files hold them: TensorFlow's bytes, without it.

An Example is a message of protocol buffers (tensorflow/core/example/example.proto, feature.proto). A record is: length
(uint64), checksum of the length (uint32), data, checksum of the data (uint32), little-endian. A checksum is CRC-32C,
rotated right by 15 bits, plus 0xa282ead8 (tensorflow/core/lib/io/record_writer.h, tensorflow/core/lib/hash/crc32c.h).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import google_crc32c
import numpy as np

_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3
"""Field numbers in the message Feature."""


def checksum(data: bytes) -> int:
    """Returns the checksum of some bytes as TFRecord files store it."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """Returns a record of a TFRecord file: `data` with its length and checksums."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, struct.pack("<I", checksum(length)), data, struct.pack("<I", checksum(data))))


def example(features: Mapping[str, bytes]) -> bytes:
    """Returns a serialised `tf.train.Example` of serialised features, by name, in the order of their names."""
    named = [(name.encode(), value) for name, value in features.items()]
    named.sort(key=lambda each: each[0] + b"\xff")  # as protobuf: of two names that begin alike, the longer one first
    return _field(1, b"".join(_field(1, _field(1, name) + _field(2, value)) for name, value in named))


def bytes_feature(values: Iterable[bytes]) -> bytes:
    """Returns a serialised `tf.train.Feature` of byte strings."""
    return _field(_BYTES_LIST, b"".join(_field(1, value) for value in values))


def float_feature(values: np.ndarray) -> bytes:
    """Returns a serialised `tf.train.Feature` of floats [n], stored as float32."""
    packed = values.astype("<f4").tobytes()
    return _field(_FLOAT_LIST, _field(1, packed) if packed else b"")


def int64_feature(values: np.ndarray) -> bytes:
    """Returns a serialised `tf.train.Feature` of integers [n], stored as int64."""
    packed = _varints(values)
    return _field(_INT64_LIST, _field(1, packed) if packed else b"")


def _field(number: int, content: bytes) -> bytes:
    """A field of a message whose content has a length: bytes, a string, a message, or packed numbers."""
    return b"".join((bytes([number << 3 | 2]), _varints(np.array([len(content)])), content))


def _varints(values: np.ndarray) -> bytes:
    """Integers [n] in groups of 7 bits, the lowest first; each byte but a number's last has the upper bit set."""
    rest = values.astype(np.int64).view(np.uint64)[:, np.newaxis] >> np.arange(0, 64, 7, dtype=np.uint64)
    digits = rest & 0x7F | (rest > 0x7F) * np.uint64(0x80)
    is_used = rest > 0
    is_used[:, 0] = True
    return digits[is_used].astype(np.uint8).tobytes()
