"""The compiled filters: the separable one against scipy in float64, the sharpening one against plain TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st
from scipy import ndimage

from tfhet import native
from tfhet.stages.filters import sharpened

pytestmark = pytest.mark.skipif(not native.available("filters"), reason="compiled ops cannot be built here")

SCIPY_MODES = {"REFLECT": "mirror", "SYMMETRIC": "reflect", "CONSTANT": "constant"}


def images(dtype: str, shape: tuple[int, ...]) -> tf.Tensor:
    return tf.cast(np.random.default_rng(5).integers(0, 256, shape), dtype)


def blurred(batch, rows, columns, padding="REFLECT", addend=0.5) -> np.ndarray:
    ops = native.ops("filters")
    return ops.tfhet_separable(batch, rows=rows, columns=columns, padding=padding, addend=addend).numpy()


def exact(batch, rows, columns, padding: str) -> np.ndarray:
    result = np.float64(batch)
    for axis, weights in ((1, columns), (2, rows)):
        # The middle of an even number of weights is left of it here, right of it there.
        origin = 0 if len(weights) % 2 else -1
        result = ndimage.correlate1d(result, weights, axis, mode=SCIPY_MODES[padding], origin=origin)
    return result


@settings(max_examples=80)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.integers(1, 4),
    rows=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=15),
    columns=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=15),
    mirrored=st.booleans(),
    padding=st.sampled_from(sorted(SCIPY_MODES)),
)
def test_separable_filter_equals_scipy(height, width, channels, rows, columns, mirrored, padding):
    if mirrored:
        rows, columns = rows + rows[-2::-1], columns + columns[-2::-1]
    rows, columns = (np.float32(weights) / max(1.0, sum(weights)) for weights in (rows, columns))
    least = max(len(rows), len(columns)) // 2 + 1
    if padding != "CONSTANT":
        height, width = max(height, least), max(width, least)
    batch = images("uint8", (2, height, width, channels))
    expected = exact(batch, rows, columns, padding)
    rows, columns = rows.tolist(), columns.tolist()
    as_floats = blurred(tf.cast(batch, tf.float32), rows, columns, padding)
    np.testing.assert_allclose(as_floats, expected, rtol=1e-5, atol=2e-4)
    levels = blurred(batch, rows, columns, padding)
    assert levels.dtype == np.uint8
    assert np.abs(levels - np.clip(expected, 0, 255)).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("size", [1, 5, 11, 31])
def test_large_images_have_no_seams(dtype, size):
    batch = images(dtype, (2, 70, 300, 3))
    weights = (np.hanning(size + 2)[1:-1] / np.hanning(size + 2).sum()).tolist()
    expected = exact(batch, weights, weights, "REFLECT")
    assert np.abs(blurred(batch, weights, weights) - expected).max() <= (0.501 if dtype == "uint8" else 1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(
    "shape", [(3, 32, 32, 3), (3, 17, 9, 1), (3, 2, 9, 3), (3, 9, 2, 1), (3, 90, 130, 3), (3, 3, 3, 4)]
)
def test_sharpened_images_equal_the_plain_ones(plainly, dtype, shape):
    batch = images(dtype, shape) if dtype == "uint8" else images(dtype, shape) / 255.0
    amounts = tf.constant([0.0, 2.0, 261.0])
    ours = sharpened(batch, amounts)
    assert ours.dtype == batch.dtype
    np.testing.assert_array_equal(ours, plainly(sharpened, batch, amounts))
    np.testing.assert_array_equal(sharpened(batch, amounts[:1]), plainly(sharpened, batch, amounts[:1]))
