"""Windows of decoded batches: compiled against plain, both against tf.image.resize and Pillow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfhet import native
from tfhet.stages import resampling
from tfhet.stages.resampling import Scaling

WAYS = {
    "plain": resampling.plain,
    "compiled": pytest.param(
        resampling.resize_windows, marks=pytest.mark.skipif(not native.available("resize"), reason="no compiler")
    ),
}
WINDOWS = [(0, 0, 40, 52), (3, 7, 20, 16), (39, 51, 1, 1), (10, 0, 30, 52), (0, 13, 2, 30), (5, 5, 12, 12)]


def images(dtype: str = "uint8", channels: int = 3, rows: int = 40, columns: int = 52, count: int = 6) -> tf.Tensor:
    return tf.cast(np.random.default_rng(4).integers(0, 256, (count, rows, columns, channels)), dtype)


def straight(count: int = 6) -> tf.Tensor:
    return tf.zeros([count], tf.bool)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("size", "channels"), [((12, 12), 3), ((33, 5), 1), ((1, 1), 2), ((80, 104), 4), ((33, 5), 3)])
def test_window_is_cut_and_resized(way, antialias, size, channels):
    batch = images("float32", channels)
    ours = way(batch, tf.constant(np.float32(WINDOWS)), straight(), Scaling(*size, antialias)).numpy()
    assert ours.shape == (6, *size, channels)
    for index, (top, left, rows, columns) in enumerate(WINDOWS):
        part = batch[index, top : top + rows, left : left + columns]
        np.testing.assert_allclose(ours[index], tf.image.resize(part, size, antialias=antialias), atol=2e-3)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("antialias", [False, True])
def test_uint8_is_rounded_and_flipped(way, antialias):
    windows, flips = tf.constant(np.float32(WINDOWS)), tf.constant([True, False] * 3)
    exact = resampling.plain(images("float32"), windows, straight(), Scaling(17, 23, antialias)).numpy()
    ours = way(images(), windows, flips, Scaling(17, 23, antialias)).numpy()
    assert ours.dtype == np.uint8
    exact[::2] = exact[::2, :, ::-1]
    assert np.abs(ours - exact).max() < 0.501


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("size", [(10, 13), (30, 39)])
def test_antialiasing_equals_pillow(way, size):
    batch = images(count=1)
    ours = way(batch, tf.constant([[3.0, 5.0, 36.0, 45.0]]), straight(1), Scaling(*size, True, True)).numpy()[0]
    part = Image.fromarray(batch[0, 3:39, 5:50].numpy())
    theirs = np.asarray(part.resize(size[::-1], Image.Resampling.BILINEAR))
    assert np.abs(np.int32(ours) - theirs).max() <= 1  # Pillow rounds between its two passes


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("antialias", [False, True])
def test_unconfined_window_is_part_of_the_resized_image(way, antialias):
    batch = images("float32", count=1)
    whole = tf.image.resize(batch, [25, 27], antialias=antialias).numpy()
    step = np.array([40 / 25, 52 / 27])
    window = np.float32([[*(np.array([4, 6]) * step), *(np.array([12, 14]) * step)]])
    ours = way(batch, tf.constant(window), straight(1), Scaling(12, 14, antialias, False)).numpy()
    np.testing.assert_allclose(ours, whole[:, 4:16, 6:20], atol=0.01)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("size", "channels"), [((1, 1), 3), ((1, 7), 1), ((5, 1), 3), ((2, 2), 3)])
@pytest.mark.parametrize("antialias", [False, True])
def test_tiny_images_are_enlarged(way, size, channels, antialias):
    batch = images("float32", channels, *size, 2)
    ours = way(batch, tf.constant([[0.0, 0.0, *map(float, size)]] * 2), straight(2), Scaling(6, 9, antialias)).numpy()
    np.testing.assert_allclose(ours, tf.image.resize(batch, [6, 9], antialias=antialias), atol=1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_empty_batch_is_resized(dtype):
    empty = resampling.resize_windows(images(dtype)[:0], tf.zeros([0, 4]), None, Scaling(8, 9))
    assert empty.shape == (0, 8, 9, 3) and empty.dtype.name == dtype


needs_compiled = pytest.mark.skipif(not native.available("resize"), reason="no compiler")


@pytest.mark.parametrize(
    "compiled", [pytest.param(True, marks=needs_compiled), pytest.param(False, marks=pytest.mark.plain)]
)
def test_one_window_and_flip_apply_to_all(compiled, monkeypatch):
    monkeypatch.setenv("TFHET_NATIVE", "auto" if compiled else "off")
    images = tf.random.stateless_uniform([3, 8, 9, 3], (1, 2))
    window = tf.constant([[1.0, 2.0, 5.5, 6.0]])
    for flip in (True, False):
        one = resampling.resize_windows(images, window, tf.constant([flip]), Scaling(4, 5))
        all = resampling.resize_windows(images, tf.tile(window, [3, 1]), tf.constant([flip] * 3), Scaling(4, 5))
        np.testing.assert_array_equal(one, all)


@needs_compiled
def test_compiled_and_plain_agree_on_any_windows():
    random = np.random.default_rng(9)
    windows = np.float32([[*random.uniform(0, 20, 2), *random.uniform(0.1, 20, 2)] for _ in range(40)])
    flips = tf.constant(random.random(40) < 0.5)
    for antialias in (False, True):
        for confined in (False, True):
            arguments = (tf.constant(windows), flips, Scaling(14, 11, antialias, confined))
            ours = resampling.resize_windows(images("float32", count=40), *arguments)
            np.testing.assert_allclose(ours, resampling.plain(images("float32", count=40), *arguments), atol=0.02)
