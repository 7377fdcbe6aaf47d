"""Rotation and zoom against the Keras layers themselves, and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

from tfhet.stages import ImageSpec, RandomRotation, RandomZoom, randomness

pytestmark = pytest.mark.usefixtures("backend")

ANGLES = np.float32([-0.6, -0.25, 0.0, 0.1, 0.4, 0.6])
ZOOMS = np.float32([0.9, 0.95, 1.0, 1.02, 1.07, 1.1])
keras_2 = pytest.mark.skipif(getattr(tf.keras, "__version__", "2") >= "3", reason="Keras 3 layers draw elsewhere")


def images(dtype: str = "float32", height: int = 20, width: int = 28) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (6, height, width, 3)), dtype)


def drawing(layer: tf.keras.layers.Layer, values: np.ndarray) -> tf.keras.layers.Layer:
    """The layer, drawing these values."""
    layer._random_generator.random_uniform = lambda shape, minval, maxval: tf.reshape(tf.constant(values), shape)
    return layer


@keras_2
def test_rotation_equals_the_keras_layer_bit_for_bit_when_it_draws_the_same_angles():
    ours = RandomRotation(0.1).apply(images(), {"angle": tf.constant(ANGLES)})
    theirs = drawing(tf.keras.layers.RandomRotation(0.1), ANGLES)(images(), training=True)
    assert (ours.numpy() == theirs.numpy()).all()


@keras_2
def test_zoom_equals_the_keras_layer_bit_for_bit_when_it_draws_the_same_factors():
    ours = RandomZoom(0.1).apply(images(), {"zoom": tf.constant(ZOOMS)})
    theirs = drawing(tf.keras.layers.RandomZoom(0.1), ZOOMS)(images(), training=True)
    assert (ours.numpy() == theirs.numpy()).all()


def by_scipy(image: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Bilinear, reflected; `matrix` sends an output point (y, x) about the centre to an input point."""
    centre = (np.array(image.shape[:2]) - 1) / 2
    offset = centre - matrix @ centre
    planes = [
        ndimage.affine_transform(np.float64(image[..., channel]), matrix, offset, order=1, mode="reflect")
        for channel in range(image.shape[-1])
    ]
    return np.stack(planes, axis=-1)


def test_rotation_equals_scipy_within_float_rounding():
    ours = RandomRotation().apply(images(), {"angle": tf.constant(ANGLES)}).numpy()
    for index, angle in enumerate(np.float64(ANGLES)):
        matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        np.testing.assert_allclose(ours[index], by_scipy(images()[index].numpy(), matrix), atol=0.02)


def test_zoom_equals_scipy_within_float_rounding():
    ours = RandomZoom().apply(images(), {"zoom": tf.constant(ZOOMS)}).numpy()
    for index, zoom in enumerate(np.float64(ZOOMS)):
        np.testing.assert_allclose(ours[index], by_scipy(images()[index].numpy(), np.eye(2) * zoom), atol=0.02)


def test_a_positive_quarter_turn_is_counter_clockwise():
    square = images(height=16, width=16)
    turned = RandomRotation(0.25).apply(square, {"angle": tf.fill([6], np.float32(np.pi / 2))})
    np.testing.assert_allclose(turned, np.rot90(square, axes=(1, 2)), atol=0.01)


@pytest.mark.parametrize(
    ("stage", "drawn"),
    [(RandomRotation(), {"angle": ANGLES}), (RandomZoom(), {"zoom": ZOOMS})],
    ids=["rotation", "zoom"],
)
def test_uint8_images_are_rounded_to_the_nearest_level_and_do_not_darken(stage, drawn):
    given = {name: tf.constant(value) for name, value in drawn.items()}
    unrounded = stage.apply(images("float32"), given).numpy()
    rounded = stage.apply(images("uint8"), given)
    assert rounded.dtype == tf.uint8
    assert (rounded.numpy() == np.rint(unrounded)).all()
    assert abs((rounded.numpy() - unrounded).mean()) < 0.02


@pytest.mark.parametrize("level", [0, 1, 127, 254, 255])
def test_a_plain_image_stays_plain(level):
    plain = tf.fill([6, 20, 28, 3], tf.constant(level, tf.uint8))
    assert (RandomRotation().apply(plain, {"angle": tf.constant(ANGLES)}).numpy() == level).all()
    assert (RandomZoom().apply(plain, {"zoom": tf.constant(ZOOMS)}).numpy() == level).all()


@pytest.mark.parametrize(
    ("stage", "name", "low", "high"),
    [
        (RandomRotation(0.1), "angle", -0.2 * np.pi, 0.2 * np.pi),
        (RandomZoom(0.1), "zoom", 0.9, 1.1),
        (RandomZoom(0.3), "zoom", 0.7, 1.3),
    ],
)
def test_angles_and_zooms_are_drawn_evenly_over_the_whole_range(stage, name, low, high):
    from scipy import stats

    keys = randomness.keys(3, stage.name, 0, 0, tf.range(20_000, dtype=tf.int64))
    drawn = stage.parameters(keys, ImageSpec(32, 32, 3, "uint8", 0, 255))
    assert set(drawn) == {name}
    values = drawn[name].numpy()
    assert low <= values.min() and values.max() <= high
    assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 0.01
