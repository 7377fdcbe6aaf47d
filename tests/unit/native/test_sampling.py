"""The compiled sampling against TensorFlow's own operation: the same values bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st

from tfhet import native
from tfhet.stages import projection

pytestmark = pytest.mark.skipif(not native.available("sampling"), reason="compiled ops cannot be built here")

SIZES = [(32, 32, 3), (17, 9, 1), (1, 1, 3), (1, 7, 1), (5, 1, 3), (33, 65, 4), (2, 2, 1)]


def images(dtype: str, height: int, width: int, channels: int, count: int = 6) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (count, height, width, channels)), dtype)


def compiled(batch, transforms, fill_mode="reflect", fill_value=0.0, size=None, interpolation="BILINEAR") -> np.ndarray:
    size = batch.shape[1:3] if size is None else size
    how = {"fill_mode": fill_mode.upper(), "fill_value": fill_value, "interpolation": interpolation}
    return native.ops("sampling").tfhet_project(batch, transforms, size, **how).numpy()


def plain(batch, transforms, fill_mode="reflect", fill_value=0.0, size=None, interpolation="BILINEAR") -> np.ndarray:
    size = batch.shape[1:3] if size is None else size
    result = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(batch, tf.float32),
        transforms=transforms,
        output_shape=size,
        fill_value=fill_value,
        interpolation=interpolation,
        fill_mode=fill_mode.upper(),
    )
    return (result if batch.dtype == tf.float32 else tf.cast(tf.round(result), batch.dtype)).numpy()


def turned(height: int, width: int) -> tf.Tensor:
    rng = np.random.default_rng(5)
    angles, zooms = tf.constant(rng.uniform(-3, 3, 6), tf.float32), tf.constant(rng.uniform(0.3, 3, 6), tf.float32)
    return projection.composed(projection.rotation(angles, height, width), projection.zooming(zooms, height, width))


def moved(height: int, width: int) -> tf.Tensor:
    """By whole pixels down, by any fraction across, also further than there is image."""
    rng = np.random.default_rng(6)
    down = tf.constant(rng.integers(-2 * height, 2 * height + 1, 6), tf.float32)
    return projection.translation(down, tf.constant(rng.uniform(-width, width, 6), tf.float32))


def shifted(height: int, width: int) -> tf.Tensor:
    """By whole pixels both ways, some of them mirrored, also further than there is image."""
    rng = np.random.default_rng(8)
    transforms = np.zeros((6, 8), np.float32)
    transforms[:, [0, 4]] = rng.choice([-1, 1], (6, 2))
    transforms[:, 2], transforms[:, 5] = rng.integers(-2 * width, 3 * width, 6), rng.integers(-height, 2 * height, 6)
    transforms[0, [2, 5]] = 1, -1
    return tf.constant(transforms)


def tilted(height: int, width: int) -> tf.Tensor:
    """With perspective, and 0 for the divisor of some pixels."""
    change = np.random.default_rng(7).integers(-2, 3, (6, 8)) / np.float32([4, 4, 1, 4, 4, 1, 16, 16])
    return tf.constant(change + np.float32([1, 0, 0, 0, 1, 0, 0, 0]), tf.float32)


def far_away(height: int, width: int) -> tf.Tensor:
    return turned(height, width) * tf.constant([100, 100, 50, 30, 100, 1000, 0, 0], tf.float32)


def copies(height: int, width: int) -> tf.Tensor:
    right, bottom = width - 1, height - 1
    return tf.constant(
        [
            [1, 0, 0, 0, 1, 0, 0, 0],
            [-1, 0, right, 0, 1, 0, 0, 0],
            [1, 0, 0, 0, -1, bottom, 0, 0],
            [-1, 0, right, 0, -1, bottom, 0, 0],
            [-1, 0, right - 1, 0, 1, 1, 0, 0],  # not quite: it reaches beyond the edge
            [-1, 0, width, 0, 1, -1, 0, 0],
        ],
        tf.float32,
    )


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("fill_mode", projection.FILLS)
@pytest.mark.parametrize("kind", [turned, moved, shifted, tilted, far_away, copies])
def test_values_equal_tensorflow(kind, fill_mode, dtype):
    for height, width, channels in SIZES:
        batch, transforms = images(dtype, height, width, channels), kind(height, width)
        for size, interpolation in ((None, "BILINEAR"), ([3, 50], "BILINEAR"), (None, "NEAREST")):
            ours = compiled(batch, transforms, fill_mode, 9.5, size, interpolation)
            assert ours.dtype == batch.dtype.as_numpy_dtype
            np.testing.assert_array_equal(ours, plain(batch, transforms, fill_mode, 9.5, size, interpolation))


@settings(max_examples=60)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.integers(1, 4),
    count=st.integers(1, 3),
    fill_mode=st.sampled_from(projection.FILLS),
    values=st.lists(st.floats(-3, 3, width=32), min_size=6, max_size=6),
    size=st.tuples(st.integers(1, 40), st.integers(1, 70)),
    dtype=st.sampled_from(["uint8", "float32"]),
)
def test_any_affine_map_equals_tensorflow(height, width, channels, count, fill_mode, values, size, dtype):
    batch = images(dtype, height, width, channels, count)
    transforms = tf.constant([[*values, 0.0, 0.0]])
    ours = compiled(batch, transforms, fill_mode, 200.25, list(size))
    np.testing.assert_array_equal(ours, plain(batch, transforms, fill_mode, 200.25, list(size)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -1e30])
@pytest.mark.parametrize("fill_mode", projection.FILLS)
@pytest.mark.parametrize("interpolation", ["BILINEAR", "NEAREST"])
def test_coordinates_that_are_no_numbers_are_survived(value, fill_mode, interpolation):
    for place in range(8):
        transforms = np.tile(np.float32([1, 0, 0, 0, 1, 0, 0, 0]), (6, 1))
        transforms[:, place] = value
        for dtype in ("uint8", "float32"):
            batch = images(dtype, 12, 10, 3)
            assert compiled(batch, tf.constant(transforms), fill_mode, 0.0, None, interpolation).shape == batch.shape
