"""Stages that move pixels against scipy, the Keras layers and each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage
from stage_images import drawing, draws, noise, one

from tfhet.stages import Affine, RandomFlip, RandomRotation, RandomTranslation, RandomZoom, projection

SCIPY_MODES = {"reflect": "reflect", "constant": "grid-constant", "nearest": "nearest"}
SIZES = [(20, 28, 3), (17, 9, 1), (1, 7, 1), (5, 1, 3), (33, 65, 4), (2, 2, 1)]


def by_scipy(image: np.ndarray, degrees, down, right, scale, shear, fill_mode) -> np.ndarray:
    """Output to input: the inverse of moved(rotated(sheared(scaled))), in (x, y) with y down, about the centre."""
    height, width, channels = image.shape
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    centre, move = np.array([width - 1, height - 1]) / 2, np.array([right * width, down * height])
    inverse = np.linalg.inv(turn @ np.array([[1.0, -shear], [0.0, 1.0]]) * scale)
    offset, matrix = (centre - inverse @ (centre + move))[::-1], inverse[::-1, ::-1]  # of (y, x)
    how = {"order": 1, "mode": SCIPY_MODES[fill_mode], "cval": 9.0}
    planes = [ndimage.affine_transform(np.float64(image[..., c]), matrix, offset, **how) for c in range(channels)]
    return np.stack(planes, axis=-1)


@pytest.mark.parametrize("fill_mode", SCIPY_MODES)
@pytest.mark.parametrize(("height", "width", "channels"), SIZES)
@pytest.mark.parametrize(
    "values", [(30.0, 0.1, -0.2, 1.3, 0.25), (-135.0, -0.3, 0.0, 0.7, -0.5), (90.0, -1.0, 1.0, 0.3, 1.0)]
)
def test_affine_equals_scipy(values, height, width, channels, fill_mode):
    batch = noise("float32", height, width, channels, 3)
    ours = Affine(*values, fill_mode, 9.0).apply(batch, {}).numpy()
    for image, found in zip(batch.numpy(), ours, strict=True):
        np.testing.assert_allclose(found, by_scipy(image, *values, fill_mode), atol=0.05)


def jointly(angle: float, **rest: float) -> Affine:
    return Affine(math.degrees(angle), **rest)


PARTS: list[tuple[str, Callable[..., Affine]]] = [
    ("random_rotation(0.3)", jointly),
    ("random_zoom(0.4)", lambda zoom: Affine(scale=1 / zoom)),
    ("random_shear(1)", lambda shear: Affine(shear=shear)),
    ("random_shear(1, 'constant', 9)", lambda shear: Affine(shear=shear)),
    ("random_translation(1, 0.6, 'wrap')", lambda down, right: Affine(down=down, right=right)),
    ("random_affine(40, 0.3, 0.2, 0.5, 1.5, 0.4, 'constant', 9)", jointly),
    ("random_affine(40, 0.3, 0.2, 0.5, 1.5, 0.4, 'reflect')", jointly),
]


@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (17, 9, 1)])
@pytest.mark.parametrize(("text", "fixed"), PARTS, ids=[text for text, _ in PARTS])
def test_random_stage_is_affine_of_its_draws(text, fixed, height, width, channels):
    stage, batch = one(text), noise("float32", height, width, channels)
    drawn = draws(stage, 6)
    ours, filled = stage.apply(batch, drawn), dict(zip(("fill_mode", "fill_value"), stage.fill, strict=True))
    for index in range(6):
        expected = fixed(**{name: float(values[index]) for name, values in drawn.items()})
        expected = replace(expected, **filled).apply(batch[index : index + 1], {})
        np.testing.assert_allclose(ours[index], expected[0], atol=0.02)


@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (17, 9, 1)])
def test_values_equal_the_keras_layers(height, width, channels):
    layers, batch = tf.keras.layers, noise("float32", height, width, channels)
    angles, zooms = np.float32([-0.6, -0.25, 0.0, 0.1, 0.4, 0.6]), np.float32([0.9, 0.95, 1.0, 1.02, 1.07, 1.1])
    turned = drawing(layers.RandomRotation(0.1), angles)(batch, training=True)
    ours = RandomRotation(0.1).apply(batch, {"angle": tf.constant(angles)})
    np.testing.assert_allclose(ours, turned, rtol=0, atol=1e-3)  # Keras 3 computes in degrees
    zoomed = drawing(layers.RandomZoom(0.1), zooms)(batch, training=True)
    np.testing.assert_array_equal(RandomZoom(0.1).apply(batch, {"zoom": tf.constant(zooms)}), zoomed)
    down, right = np.float32([-0.6, -0.25, 0.0, 0.1, 0.4, 1.0]), np.float32([0.3, -1.0, 0.0, 0.5, -0.01, 0.2])
    for mode in projection.FILLS:
        moved = drawing(layers.RandomTranslation(1.0, 1.0, mode, fill_value=3.0), down, right)(batch, training=True)
        drawn = {"down": tf.constant(down), "right": tf.constant(right)}
        np.testing.assert_array_equal(RandomTranslation(1, 1, mode, 3.0).apply(batch, drawn), moved)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_flips_equal_tf_image(dtype):
    batch, across, upright = noise(dtype), [True, False] * 3, [True, True, False, False, True, True]
    drawn = {"flip_horizontal": tf.constant(across), "flip_vertical": tf.constant(upright)}
    flipped = RandomFlip(vertical=True).apply(batch, drawn)
    for index in range(6):
        expected = tf.image.flip_left_right(batch[index]) if across[index] else batch[index]
        expected = tf.image.flip_up_down(expected) if upright[index] else expected
        np.testing.assert_array_equal(flipped[index], expected)


@pytest.mark.parametrize(
    "text",
    [
        "affine(30, 0.1, -0.2, 1.3, 0.25)",
        "random_affine()",
        "random_rotation(0.3)",
        "random_zoom(0.3)",
        "random_shear(1)",
        "random_translation(0.3, 0.05)",
        "random_resized_crop(16, 16)",
        "random_resized_crop(64, 64)",
    ],
)
def test_uint8_is_float_rounded_and_plain_images_stay(text):
    stage = one(text)
    drawn = draws(stage, 6)
    rounded = stage.apply(noise(), drawn)
    assert rounded.dtype == tf.uint8
    np.testing.assert_array_equal(rounded, np.rint(stage.apply(noise("float32"), drawn)))
    for level in (0, 1, 127, 254, 255):
        assert (stage.apply(tf.fill([6, 20, 28, 3], tf.constant(level, tf.uint8)), drawn).numpy() == level).all()


@pytest.mark.parametrize(
    "text",
    [
        *(f"affine(fill_mode={mode!r})" for mode in projection.FILLS),
        *(f"random_translation(0, 0, {mode!r})" for mode in projection.FILLS),
        "random_affine(0, 0, 0, 1, 1, 0)",
        "random_shear(0)",
        "random_crop()",
        "pad()",
        *(f"resize(20, 28, {method!r})" for method in ("area", "bicubic", "bilinear", "nearest")),
        "sharpen(1)",
        "gaussian_noise(0)",
        "random_contrast(1, 1)",
        "dilate(1)",
        "gaussian_blur(1)",
    ],
)
def test_neutral_settings_leave_images_unchanged(text):
    stage = one(text)
    for batch in (noise(), noise("float32") / 255.0):
        result = stage.apply(batch, draws(stage, 6))
        assert result.dtype == batch.dtype
        np.testing.assert_array_equal(result, batch)
