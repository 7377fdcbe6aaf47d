"""The Exif orientation of image files: Pillow is the reference."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, strategies as st
from PIL import Image, ImageOps

from tfhet import stages
from tfhet.source import Encoded
from tfhet.source.image_file import _TURNS
from tfhet.stages import Decode, Resize

TAG = 274
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)).resize((56, 40))


def saved(kind: str, value: int | None, endian: str = "<") -> bytes:
    exif = Image.Exif()
    exif.endian = endian
    exif[271] = "maker"
    if value is not None:
        exif[TAG] = value
    PICTURE.save(file := io.BytesIO(), kind, exif=exif)
    return file.getvalue()


def run(files: list[bytes], size: tuple[int, int], *, fuse: bool = True, **how: bool) -> np.ndarray:
    """Decoded images, resized to a size: unchanged if it is theirs."""
    return stages.compile((Decode(**how), Resize(*size)), fuse=fuse)(files)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("values", [(None, 0, 1, 2, 3, 4, 9), (5, 6, 7, 8)], ids=["kept", "transposed"])
def test_images_are_turned_upright(kind, values):
    files = [saved(kind, value, endian) for value in values for endian in "<>"]
    expected = np.stack([np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file)))) for file in files])
    size = expected.shape[1:3]
    for images in (Encoded(*size).decode(tf.constant(files)).numpy(), run(files, size), run(files, size, fuse=False)):
        assert np.abs(images.astype(int) - expected).max() <= 6  # TensorFlow decodes with a quicker transform


def test_accurate_decoding_equals_pillow():
    files = [saved("JPEG", 1), saved("JPEG", 3), saved("PNG", None)]
    expected = np.stack([np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file)))) for file in files])
    np.testing.assert_array_equal(Encoded(40, 56, accurate=True).decode(tf.constant(files)), expected)
    for fuse in (True, False):
        np.testing.assert_array_equal(run(files, (40, 56), fuse=fuse, accurate=True), expected)


def test_orientation_can_be_ignored():
    files = [saved("JPEG", 6)]
    stored = tf.io.decode_jpeg(files[0])[None]
    np.testing.assert_array_equal(Encoded(40, 56, upright=False).decode(tf.constant(files)), stored)
    for fuse in (True, False):
        np.testing.assert_array_equal(run(files, (40, 56), fuse=fuse, upright=False), stored)


def orientation(block: bytes, way: Any) -> int:
    """The Exif orientation of a block that may be cut: its first entry with the tag counts."""
    data = block + bytes(100)

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], way)

    first = number(4, 4)
    if 8 <= first <= len(block):
        for at in range(first + 2, first + 2 + 12 * number(first, 2), 12):
            if at + 12 <= len(block) and number(at, 2) == TAG:
                value = number(at + 8, 2 if number(at + 2, 2) == 3 else 4)
                return value if 1 <= value <= 8 else 1
    return 1


@given(
    st.sampled_from([b"II", b"MM", b"XX"]),
    st.lists(st.tuples(st.sampled_from([TAG, 1, 0xFFFF]), st.integers(0, 5), st.integers(0, 9)), max_size=3),
    st.integers(0, 40),
    st.integers(0, 64),
)
def test_damaged_blocks_are_read_alike(order, entries, first, kept):
    """By the compiled code and by a few lines of Python; neither reads past the block."""
    way = "big" if order == b"MM" else "little"
    block = order + (42).to_bytes(2, way) + first.to_bytes(4, way) + len(entries).to_bytes(2, way)
    for tag, kind, value in entries:
        block += tag.to_bytes(2, way) + kind.to_bytes(2, way) + (1).to_bytes(4, way) + value.to_bytes(2, way) * 2
    block = b"Exif\0\0" + block[:kept]
    head = b"\xff\xd8\xff\xe1" + (len(block) + 2).to_bytes(2, "big") + block
    PICTURE.save(file := io.BytesIO(), "JPEG")
    content = head + file.getvalue()[2:]
    upright = Image.open(file)
    if (code := orientation(block[6:], way)) in _TURNS:
        upright = upright.transpose(_TURNS[code])
    height, width = upright.size[::-1]
    found = run([content], (height, width))[0]
    assert found.shape[:2] == ((56, 40) if code >= 5 else (40, 56))
    assert np.abs(found.astype(int) - np.asarray(upright)).max() <= 6
