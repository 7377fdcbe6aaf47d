"""Image files by Pillow: whether they can be decoded, and their pixels."""

from __future__ import annotations

import contextlib
import io

import numpy as np
from PIL import Image

from tfhet.errors import DataError

_FORMATS = ("JPEG", "PNG", "BMP", "GIF")
_BMP = {(8, "L"), (24, "RGB"), (32, "RGB"), (32, "RGBA")}
"""Bits per pixel and Pillow's mode of the BMP files that TensorFlow decodes. It takes a palette's indices for grey."""
_ORIENTATION = 0x0112
_Turn = Image.Transpose
_TURNS = {2: _Turn.FLIP_LEFT_RIGHT, 3: _Turn.ROTATE_180, 4: _Turn.FLIP_TOP_BOTTOM, 5: _Turn.TRANSPOSE}
_TURNS |= {6: _Turn.ROTATE_270, 7: _Turn.TRANSVERSE, 8: _Turn.ROTATE_90}
"""By the Exif orientation."""


def check(content: bytes) -> tuple[int, int]:
    """Decodes an image file. Returns its columns and rows. Raises DataError if Pillow cannot decode it, or TensorFlow
    will not."""
    image = _decoded(content)
    if image.format == "BMP" and (content[28], image.mode) not in _BMP:
        raise DataError(f"TensorFlow decodes no BMP with {content[28]} bits per pixel and colours {image.mode}")
    return image.size


def pixels(content: bytes, size: tuple[int, int]) -> np.ndarray:
    """Returns an image file as RGB, uint8 [height, width, 3]: upright, and resized (bilinear, antialiased) if needed.
    Raises DataError if it cannot be decoded."""
    image = _decoded(content)
    turn = _TURNS.get(_orientation(image))
    if image.mode.startswith("I"):  # 16 bits of grey
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    image = image.convert("RGB")
    image = image if turn is None else image.transpose(turn)
    return np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR))


def _decoded(content: bytes) -> Image.Image:
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            image.verify()  # checksums and end of a PNG file; the object is of no use afterwards
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            image.load()
            return image
    except Exception as error:  # noqa: BLE001  Pillow raises SyntaxError, ValueError, struct.error and others
        raise DataError(f"it cannot be decoded: {error}") from None


def _orientation(image: Image.Image) -> int:
    """Returns the Exif orientation; 1 (upright) for an image without one, or with Exif data that are broken."""
    with contextlib.suppress(Exception):
        exif = Image.Exif()
        exif.load(image.info.get("exif", b""))
        return int(exif.get(_ORIENTATION, 1))
    return 1
