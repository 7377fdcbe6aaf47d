"""What calls of the C interface (`abi.h`) share: status, codes of errors, addresses of arrays."""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn

from tfhet.errors import UsageError

INVALID, NOT_FOUND, DENIED, NO_MEMORY, DATA_LOSS = 3, 5, 7, 8, 15
"""Codes of the C interface."""


class Status(ctypes.Structure):
    _fields_ = (
        *(("code", ctypes.c_int32), ("text", ctypes.c_char * 1004)),
        *(("item", ctypes.c_int64), ("offset", ctypes.c_int64)),
    )

    @property
    def message(self) -> str:
        """Text of the error."""
        text: bytes = self.text
        return text.decode(errors="replace")

    def refuse(self) -> NoReturn:
        """Raises MemoryError if there was no memory, else UsageError."""
        raise MemoryError(self.message) if self.code == NO_MEMORY else UsageError(self.message)


def address(array: Any) -> int:
    """Returns where the values of a NumPy array are."""
    found: int = array.__array_interface__["data"][0]  # much quicker than array.ctypes.data
    return found
