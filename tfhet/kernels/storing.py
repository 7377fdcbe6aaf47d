"""Stores decoded images: files of the format TFI (`stored.h`), which the stage `decode` reads."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from tfhet.errors import DataError, UsageError, shown
from tfhet.kernels.files import CoreMemory
from tfhet.kernels.interface import INVALID, Status
from tfhet.kernels.loader import library

KINDS: Mapping[str, int] = {"yuv420": 1, "rgb": 2}
"""Kinds of TFI files, and their numbers in the files."""


def is_stored(content: bytes) -> bool:
    """Whether a file is a TFI file."""
    return content.startswith(b"\x93TFI")


def store_image(content: bytes, kind: str, max_side: int | None = None, *, accurate: bool = False) -> bytes:
    """Decodes an image file, and returns it as a TFI file: upright, without its compression.

    Args:
        content: A file that the stage `decode` reads.
        kind: "yuv420" (1.5 bytes a pixel) or "rgb" (3 bytes a pixel).
        max_side: An image whose longer side has more pixels is reduced to it, antialiased, in its shape.
        accurate: Whether JPEG is decoded by the accurate transform, as by `decode(accurate=True)`.

    Raises:
        DataError: The file cannot be decoded.
        UsageError: Arguments do not fit.
    """
    if kind not in KINDS:
        raise UsageError(f"an image is stored as {', '.join(KINDS)}, not {shown(kind)}")
    if max_side is not None and max_side < 1:
        raise UsageError(f"the longer side of an image has at least 1 pixel, not {max_side}")
    place, size, memory, status = ctypes.c_void_p(), ctypes.c_int64(), CoreMemory(), Status()
    if library().tfhet_image_store(
        *(content, len(content), KINDS[kind], max_side or 0, accurate),
        *map(ctypes.byref, (place, size, memory, status)),
    ):
        if status.code == INVALID:
            raise DataError(status.message)
        status.refuse()
    return ctypes.string_at(place, size.value)
