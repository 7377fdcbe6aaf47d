from __future__ import annotations

import colorsys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance

from tfhet.errors import UsageError
from tfhet.stages import ColorJitter, ImageSpec, randomness

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(9, 7, 3, "uint8", 0.0, 255.0)
COUNT = 6
DRAWN = {
    "brightness": np.float32([1.0, 0.7, 1.2, 0.0, 1.4, 3.0]),
    "contrast": np.float32([1.0, 1.3, 0.6, 1.4, 0.0, 2.0]),
    "saturation": np.float32([1.0, 0.6, 1.4, 1.3, 0.7, 0.0]),
    "hue": np.float32([0.0, 0.1, -0.3, 0.5, 0.2, -0.1]),
}


def images(channels: int = 3, low: int = 0, high: int = 256) -> np.ndarray:
    return np.random.default_rng(1).integers(low, high, (COUNT, 9, 7, channels)).astype(np.uint8)


def some(names: tuple[str, ...]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(DRAWN[name]) for name in names}


def exact(batch: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """By definition, in float64, one after the other; images in 0..1."""
    values = np.float64(batch)
    weights = np.array([0.299, 0.587, 0.114]) if batch.shape[-1] == 3 else np.ones(1)
    factors = {name: np.float64(value)[:, None, None, None] for name, value in DRAWN.items()}
    if "brightness" in names:
        values = values * factors["brightness"]
    if "contrast" in names:
        mean = (values @ weights).mean(axis=(1, 2))[:, None, None, None]
        values = factors["contrast"] * values + (1 - factors["contrast"]) * mean
    if "saturation" in names:
        values = factors["saturation"] * values + (1 - factors["saturation"]) * (values @ weights)[..., None]
    values = np.clip(values, 0, 1)
    if "hue" in names and batch.shape[-1] == 3:
        for index in np.ndindex(values.shape[:3]):
            hue, saturation, value = colorsys.rgb_to_hsv(*values[index])
            values[index] = colorsys.hsv_to_rgb((hue + DRAWN["hue"][index[0]]) % 1.0, saturation, value)
    return values


CHOICES = [
    ("brightness", "contrast", "saturation", "hue"),
    ("brightness", "contrast", "saturation"),
    ("contrast", "hue"),
    ("saturation",),
    ("brightness",),
    ("hue",),
]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("names", CHOICES, ids="+".join)
def test_float_images_are_changed_step_by_step_as_defined(names, channels):
    batch = np.float32(images(channels) / 255)
    ours = ColorJitter().apply(tf.constant(batch), some(names))
    assert ours.dtype == tf.float32
    np.testing.assert_allclose(ours, exact(batch, names), atol=5e-5)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("names", CHOICES, ids="+".join)
def test_uint8_images_are_changed_as_defined_and_rounded_once(names, channels):
    batch = images(channels)
    ours = ColorJitter().apply(tf.constant(batch), some(names))
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - 255 * exact(batch / 255, names)).max() <= 0.5 + 5e-3


def test_where_nothing_is_clipped_between_the_steps_pillow_differs_by_its_roundings_only():
    batch = images(low=70, high=140)
    drawn = {name: tf.constant(np.linspace(low, 1.3, COUNT), tf.float32) for name, low in PILLOW_LOWS.items()}
    ours = ColorJitter().apply(tf.constant(batch), drawn).numpy()
    for index in range(COUNT):
        image = Image.fromarray(batch[index])
        for kind, name in STEPS:
            image = kind(image).enhance(float(drawn[name][index]))
        # Each of Pillow's three steps cuts up to one level off, and the next enlarges that.
        differences = np.int32(ours[index]) - np.asarray(image, np.int32)
        assert differences.min() >= -2
        assert differences.max() <= 4


PILLOW_LOWS = {"brightness": 0.7, "contrast": 0.8, "saturation": 0.9}
STEPS = [
    (ImageEnhance.Brightness, "brightness"),
    (ImageEnhance.Contrast, "contrast"),
    (ImageEnhance.Color, "saturation"),
]


def test_factors_and_turns_are_uniform_about_no_change_and_independent():
    keys = randomness.keys(3, "color_jitter", 0, 0, tf.range(20_000, dtype=tf.int64))
    stage = ColorJitter(0.4, 0.3, 1.5, 0.1)
    drawn = stage.parameters(keys, SPEC)
    bounds = {"brightness": (0.6, 1.4), "contrast": (0.7, 1.3), "saturation": (0.0, 2.5), "hue": (-0.1, 0.1)}
    assert set(drawn) == set(bounds)
    for name, (low, high) in bounds.items():
        values = drawn[name].numpy()
        assert low - 1e-6 <= values.min() < low + 0.001 * (high - low)
        assert high - 0.001 * (high - low) < values.max() <= high + 1e-6
        assert abs(values.mean() - (low + high) / 2) < 4 * (high - low) / np.sqrt(12 * 20_000)
        assert (stage.parameters(keys[70:75], SPEC)[name].numpy() == values[70:75]).all()
    correlations = np.corrcoef([value.numpy() for value in drawn.values()]) - np.eye(4)
    assert np.abs(correlations).max() < 4 / np.sqrt(20_000)


def test_what_is_left_out_is_not_drawn():
    keys = randomness.keys(0, "color_jitter", 0, 0, tf.range(3, dtype=tf.int64))
    assert set(ColorJitter(0.0, 0.2, 0.0, 0.1).parameters(keys, SPEC)) == {"contrast", "hue"}


def test_amounts_out_of_range_and_a_jitter_of_nothing_are_refused():
    with pytest.raises(UsageError, match="color_jitter: hue is from 0 to 0.5, not 0.7"):
        ColorJitter(hue=0.7)
    with pytest.raises(UsageError, match="color_jitter: contrast is at least 0, not -0.1"):
        ColorJitter(contrast=-0.1)
    with pytest.raises(UsageError, match="color_jitter: all four are 0"):
        ColorJitter(0.0, 0.0, 0.0, 0.0)
