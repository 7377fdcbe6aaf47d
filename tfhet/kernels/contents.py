"""Byte strings in the core's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from tfhet.errors import UsageError


class Contents(Sequence[bytes]):
    """Byte strings, such as image files, that the core reads without Python objects for them.

    An item is a copy, as bytes; a slice shares the memory. A pickle has all bytes.

    Attributes:
        addresses: uint64 [n], where each byte string is in memory.
        lengths: int64 [n], bytes of each.
    """

    __slots__ = ("_owner", "addresses", "lengths")

    def __init__(self, addresses: np.ndarray, lengths: np.ndarray, owner: Any) -> None:
        """addresses, lengths: contiguous. owner: object that keeps the memory."""
        self.addresses, self.lengths, self._owner = addresses, lengths, owner

    @classmethod
    def of(cls, items: Iterable[bytes]) -> Contents:
        """Returns bytes objects as contents, without a copy of their bytes. Raises UsageError for other objects."""
        if isinstance(items, Contents):
            return items
        items = list(items)
        size = len(items)
        try:
            pointers = (ctypes.c_char_p * size)(*items)
            lengths = np.fromiter(map(len, items), np.int64, size)
        except TypeError:
            raise UsageError("records and image files are bytes") from None
        return cls(np.frombuffer(pointers, np.uint64) if size else np.empty(0, np.uint64), lengths, items)

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Contents: ...
    def __getitem__(self, index: int | slice) -> bytes | Contents:
        if isinstance(index, slice):
            addresses, lengths = map(np.ascontiguousarray, (self.addresses[index], self.lengths[index]))
            return Contents(addresses, lengths, self._owner)
        return ctypes.string_at(int(self.addresses[index]), int(self.lengths[index]))

    def __reduce__(self) -> tuple:
        return Contents.of, (list(self),)

    def __repr__(self) -> str:
        return f"<Contents: {len(self)} byte strings, {int(self.lengths.sum())} bytes>"
