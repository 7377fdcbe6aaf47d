"""The Exif orientation of image files: Pillow is the reference."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, strategies as st
from PIL import Image, ImageOps

from tfhet import native
from tfhet.source import Encoded, exif_orientation
from tfhet.stages import decoding
from tfhet.stages.resampling import Scaling

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


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("values", [(None, 0, 1, 2, 3, 4, 9), (5, 6, 7, 8)], ids=["kept", "transposed"])
@pytest.mark.parametrize("backend", ["compiled", pytest.param("plain", marks=pytest.mark.plain)])
def test_images_are_turned_upright(kind, values, backend, monkeypatch):
    if backend == "plain":
        monkeypatch.setattr(native, "ops", lambda name: None)
    contents = [saved(kind, value, endian) for value in values for endian in "<>"]
    expected = np.stack([np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file)))) for file in contents])
    size, batch = expected.shape[1:3], tf.constant(contents)
    assert {*map(tuple, decoding.sizes(batch).numpy())} == {size}
    windows = tf.tile(tf.constant([[0, 0, *size]], tf.float32), [len(contents), 1])
    found = [
        Encoded(*size).decode(batch),
        decoding.Decode().apply(batch, {}).to_tensor(),
        decoding.decode_windows(batch, windows, None, Scaling(*size)),
    ]
    for images in found:
        assert np.abs(images.numpy().astype(int) - expected).max() <= 6  # TensorFlow decodes with a quicker transform


@pytest.mark.parametrize("backend", ["compiled", pytest.param("plain", marks=pytest.mark.plain)])
def test_accurate_decoding_equals_pillow(backend, monkeypatch):
    if backend == "plain":
        monkeypatch.setattr(native, "ops", lambda name: None)
    contents = [saved("JPEG", 1), saved("JPEG", 3), saved("PNG", None)]
    expected = np.stack([np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file)))) for file in contents])
    batch, windows = tf.constant(contents), tf.constant([[0, 0, 40, 56]] * 3, tf.float32)
    for images in (
        Encoded(40, 56, accurate=True).decode(batch),
        decoding.Decode(accurate=True).apply(batch, {}).to_tensor(),
        decoding.decode_windows(batch, windows, None, Scaling(40, 56), accurate=True),
    ):
        assert np.array_equal(images, expected)


def test_orientation_can_be_ignored():
    batch = tf.constant([saved("JPEG", 6)])
    assert decoding.sizes(batch, upright=False).numpy().tolist() == [[40, 56]]
    stored = tf.io.decode_jpeg(batch[0])[None]
    window = tf.constant([[0, 0, 40, 56]], tf.float32)
    for images in (
        Encoded(40, 56, upright=False).decode(batch),
        decoding.Decode(upright=False).apply(batch, {}).to_tensor(),
        decoding.decode_windows(batch, window, None, Scaling(40, 56), upright=False),
    ):
        assert (images.numpy() == stored.numpy()).all()


@given(
    st.sampled_from([b"II", b"MM", b"XX"]),
    st.lists(st.tuples(st.sampled_from([TAG, 1, 0xFFFF]), st.integers(0, 5), st.integers(0, 9)), max_size=3),
    st.integers(0, 40),
    st.integers(0, 64),
)
def test_damaged_blocks_are_read_alike(order, entries, first, kept):
    """By the compiled code and by TensorFlow; neither reads past the block."""
    way = "big" if order == b"MM" else "little"
    block = order + (42).to_bytes(2, way) + first.to_bytes(4, way) + len(entries).to_bytes(2, way)
    for tag, kind, value in entries:
        block += tag.to_bytes(2, way) + kind.to_bytes(2, way) + (1).to_bytes(4, way) + value.to_bytes(2, way) * 2
    block = b"Exif\0\0" + block[:kept]
    head = b"\xff\xd8\xff\xe1" + (len(block) + 2).to_bytes(2, "big") + block
    PICTURE.save(file := io.BytesIO(), "JPEG")
    content = tf.constant(head + file.getvalue()[2:])
    turned = int(exif_orientation(content)) >= 5
    assert decoding.sizes(content[None]).numpy()[0].tolist() == ([56, 40] if turned else [40, 56])
