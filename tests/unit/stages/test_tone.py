"""Stages of levels and colours against formulas in float64, Pillow and tf.image."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from PIL import ImageOps
from scipy import ndimage, stats
from stage_images import by_pillow, draws, keys, noise, one

from tfhet.stages import GaussianNoise

DELTAS = np.float32([-1.0, -0.31, 0.0, 0.002, 0.5, 1.0])
FACTORS = np.float32([0.0, 0.4, 1.0, 1.3, 2.5, 20.0])
TURNS = np.float32([-0.5, -0.2, 0.0, 0.05, 1 / 3, 0.5])
SEEDS = np.arange(6, dtype=np.uint64) * 77
JITTER = {
    "brightness": np.float32([1.0, 0.7, 1.2, 0.0, 1.4, 3.0]),
    "contrast": np.float32([1.0, 1.3, 0.6, 1.4, 0.0, 2.0]),
    "saturation": np.float32([1.0, 0.6, 1.4, 1.3, 0.7, 0.0]),
    "hue": np.float32([0.0, 0.1, -0.3, 0.5, 0.2, -0.1]),
}
JITTERS = [
    ("brightness", "contrast", "saturation", "hue"),
    ("brightness", "contrast", "saturation"),
    ("contrast", "hue"),
    ("saturation",),
    ("brightness",),
    ("hue",),
]


def images(channels: int) -> np.ndarray:
    """uint8 [6, 16, 19, channels]: noise with black, white and grey pixels, all levels, a few levels, and one level."""
    batch = noise(height=16, width=19, channels=channels).numpy()
    batch[:, 0] = np.random.default_rng(3).integers(0, 2, (6, 19, channels)) * 255
    batch[:, 1] = batch[:, 1, :, :1]
    batch[3, :, :16] = np.arange(256).reshape(16, 16, 1)
    batch[4] = batch[4] // 4 + 50 + 3 * np.arange(channels)
    batch[5] = 90
    return batch


def column(values: np.ndarray) -> np.ndarray:
    return np.float64(values)[:, None, None, None]


def contrast(x: np.ndarray) -> np.ndarray:
    mean = x.mean(axis=(1, 2), keepdims=True)
    return np.clip((x - mean) * column(FACTORS) + mean, 0, 255)


def saturation(x: np.ndarray) -> np.ndarray:
    most, least = x.max(axis=-1, keepdims=True), x.min(axis=-1, keepdims=True)
    found = (most - least) / np.maximum(most, 1)
    return most - (most - x) * np.minimum(found * column(FACTORS), 1) / np.where(found > 0, found, 1)


def hue(x: np.ndarray) -> np.ndarray:
    if x.shape[-1] == 1:
        return x
    return np.stack([tf.image.adjust_hue(np.float32(image), turn) for image, turn in zip(x, TURNS, strict=True)])


def jitter(names: tuple[str, ...], x: np.ndarray) -> np.ndarray:
    """The steps in float64, one after the other, as the documentation of color_jitter defines them."""
    weights = np.array([0.299, 0.587, 0.114]) if x.shape[-1] == 3 else np.ones(1)
    factors, x = {name: column(value) for name, value in JITTER.items()}, x / 255
    if "brightness" in names:
        x = x * factors["brightness"]
    if "contrast" in names:
        mean = (x @ weights).mean(axis=(1, 2))[:, None, None, None]
        x = factors["contrast"] * x + (1 - factors["contrast"]) * mean
    if "saturation" in names:
        x = factors["saturation"] * x + (1 - factors["saturation"]) * (x @ weights)[..., None]
    x = np.clip(x, 0, 1)
    if "hue" in names and x.shape[-1] == 3:
        for index in np.ndindex(x.shape[:3]):
            turned, colour, value = colorsys.rgb_to_hsv(*x[index])
            x[index] = colorsys.hsv_to_rgb((turned + JITTER["hue"][index[0]]) % 1.0, colour, value)
    return x * 255


def sharpened(amount: float, x: np.ndarray) -> np.ndarray:
    kernel, smooth = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]])[None, :, :, None] / 13, x.copy()
    smooth[:, 1:-1, 1:-1] = ndimage.convolve(x, kernel)[:, 1:-1, 1:-1]
    return np.clip(amount * x + (1 - amount) * smooth, 0, 255)


def stretched(x: np.ndarray) -> np.ndarray:
    low, high = (bound(x, axis=(1, 2), keepdims=True) for bound in (np.min, np.max))
    return np.where(high > low, (x - low) * 255 / np.maximum(high - low, 1), x)


def normals(keys: tf.Tensor, count: int) -> np.ndarray:
    """Float64 [batch, count]: what gaussian_noise adds to a grey image, which is never clipped."""
    grey = tf.fill([len(keys), 1, count, 1], 0.5)
    return (np.float64(GaussianNoise(0.05).apply(grey, {"noise": keys}))[:, 0, :, 0] - 0.5) / 0.05


def noisy(x: np.ndarray) -> np.ndarray:
    return np.clip(x + 255 * 0.3 * normals(tf.constant(SEEDS), x[0].size).reshape(x.shape), 0, 255)


CASES: list[tuple[str, dict[str, np.ndarray], Callable[[np.ndarray], np.ndarray], float]] = [
    # text, draws, exact levels, maximum error of float images in 0..1
    ("random_brightness()", {"brightness": DELTAS}, lambda x: np.clip(x + 255 * column(DELTAS), 0, 255), 1e-6),
    ("random_contrast()", {"contrast": FACTORS}, contrast, 1e-5),
    ("random_saturation()", {"saturation": FACTORS}, saturation, 2e-6),
    ("random_hue()", {"hue": TURNS}, hue, 2e-6),
    *(
        (
            f"color_jitter({', '.join(f'{name}={0.4 * (name in names)}' for name in JITTER)})",
            {name: JITTER[name] for name in names},
            partial(jitter, names),
            5e-5,
        )
        for names in JITTERS
    ),
    ("invert()", {}, lambda x: 255 - x, 1e-6),
    *((f"posterize({n})", {}, lambda x, n=n: x // 2 ** (8 - n) * 2 ** (8 - n), 1e-6) for n in (1, 2, 4, 7, 8)),
    *(
        (f"solarize({level})", {}, lambda x, level=level: np.where(x >= level, 255 - x, x), 1e-6)
        for level in (0, 1, 100, 128, 255, 256)
    ),
    *(
        (f"gamma({power}, {gain})", {}, lambda x, p=power, g=gain: np.minimum(255 * g * (x / 255) ** p, 255), 5e-6)
        for power, gain in ((1.0, 1.0), (0.4, 1.0), (2.2, 1.0), (1.7, 1.5), (0.5, 0.3), (10.0, 100.0))
    ),
    *((f"sharpen({amount})", {}, partial(sharpened, amount), 1e-5) for amount in (0.0, 0.5, 1.0, 1.7, 5.0)),
    ("autocontrast()", {}, stretched, 2e-5),
    ("gaussian_noise(0.3)", {"noise": SEEDS}, noisy, 1e-5),
]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("text", "drawn", "exact", "error"), CASES, ids=["+".join([text, *drawn]) for text, drawn, _, _ in CASES]
)
def test_levels_are_the_formula_rounded_once(text, drawn, exact, error, channels):
    batch, stage = images(channels), one(text)
    drawn = {name: tf.constant(values) for name, values in drawn.items()}
    expected = exact(np.float64(batch))
    levels = stage.apply(tf.constant(batch), drawn)
    assert levels.dtype == tf.uint8
    assert np.abs(levels.numpy() - expected).max() <= 0.5 + (5e-3 if text.startswith("color_jitter") else 1e-3)
    floats = stage.apply(tf.constant(batch / 255, tf.float32), drawn)
    assert floats.dtype == tf.float32
    np.testing.assert_allclose(floats, expected / 255, atol=error)


@pytest.mark.parametrize(("height", "width"), [(33, 47), (5, 3), (16, 17), (64, 64)])
@pytest.mark.parametrize("channels", [1, 3])
def test_equalized_images_equal_pillow(height, width, channels):
    rng, size = np.random.default_rng(1), (height, width, channels)
    ramp = np.broadcast_to(np.linspace(0, 255, width)[np.newaxis, :, np.newaxis], size)
    kinds = [rng.normal(60, 20, size), rng.normal(200, 60, size), rng.integers(3, 9, size) * 20, np.full(size, 77)]
    batch = np.clip(np.stack([*kinds, rng.integers(0, 2, size) * 255, ramp]), 0, 255).astype(np.uint8)
    expected = by_pillow(batch, ImageOps.equalize)
    np.testing.assert_array_equal(one("equalize()").apply(tf.constant(batch), {}), expected)
    near = np.clip(batch / 255 + rng.uniform(-0.4, 0.4, batch.shape) / 255, 0, 1)
    np.testing.assert_allclose(one("equalize()").apply(tf.constant(near, tf.float32), {}), expected / 255, atol=1e-6)


@pytest.mark.parametrize("gain", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("power", [0.01, 0.4, 1.0, 2.2, 30.0])
def test_powers_of_tiny_values_are_the_formula(power, gain):
    values = np.float32([0.0, 1e-45, 1e-38, 1e-30, 1e-6, *np.linspace(0, 1, 5001)]).reshape(1, -1, 2, 1)
    ours = one(f"gamma({power}, {gain})").apply(tf.constant(values), {}).numpy()
    normal = (values == 0) | (values > 1e-37)
    exact = np.minimum(gain * np.float64(values) ** np.float32(power), 1)
    np.testing.assert_allclose(ours[normal], exact[normal], rtol=1e-5, atol=1e-6)
    assert ours.max() <= 1


@pytest.mark.parametrize("level", [0, 3, 255])
def test_mean_of_a_large_plain_image_is_exact(level):
    for plain in (tf.fill([2, 301, 517, 3], tf.constant(level, tf.uint8)), tf.fill([2, 301, 517, 3], level / 256)):
        ours = one("random_contrast()").apply(plain, {"contrast": tf.constant([0.0, 1.5])})
        np.testing.assert_array_equal(ours, plain)


def test_grey_levels_equal_pillow_and_floats_the_formula():
    batch = images(3)
    levels = by_pillow(batch, lambda image: image.convert("L").convert("RGB"))
    for channels in (1, 3):
        stage = one(f"grayscale({channels})")
        np.testing.assert_array_equal(stage.apply(tf.constant(batch), {}), levels[..., :channels])
        exact = np.repeat((batch / 255 @ [0.299, 0.587, 0.114])[..., None], channels, axis=-1)
        np.testing.assert_allclose(stage.apply(tf.constant(batch / 255, tf.float32), {}), exact, atol=1e-5)
        repeated = np.repeat(batch[..., :1], channels, axis=-1)
        np.testing.assert_array_equal(stage.apply(tf.constant(batch[..., :1]), {}), repeated)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        (f"normalize({MEAN}, {STD})", "uint8", lambda x: (x / 255 - MEAN) / STD),
        ("normalize(0.25, [2.5])", "float32", lambda x: (x - 0.25) / 2.5),
        ("rescale(1/255)", "uint8", lambda x: x / 255),
        ("rescale(1/127.5, -1)", "uint8", lambda x: x / 127.5 - 1),
        ("cast()", "uint8", lambda x: x),
    ],
)
def test_conversions_to_float_are_the_formula(text, dtype, expected):
    batch = noise(dtype)
    result = one(text).apply(batch, {})
    assert result.dtype == tf.float32
    np.testing.assert_allclose(result, expected(np.float64(batch)), rtol=1e-6, atol=2e-6)


def test_rescaling_equals_the_keras_layer():
    for scale, offset in ((1 / 255, 0.0), (1 / 127.5, -1.0)):
        layer = tf.keras.layers.Rescaling(scale, offset)
        np.testing.assert_array_equal(one(f"rescale({scale}, {offset})").apply(noise(), {}), layer(noise()))


def test_cast_floats_are_rounded_and_clipped():
    values = np.random.default_rng(1).uniform(-100, 400, (3, 9, 7, 3)).astype(np.float32)
    ours = one("cast('uint8')").apply(tf.constant(values), {})
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - np.clip(np.float64(values), 0, 255)).max() <= 0.5 + 1e-4
    wild = tf.constant([-np.inf, -1e30, -0.6, 0.4, 127.49, 127.51, 255.4, 1e30, np.inf, np.nan], shape=[1, 10, 1, 1])
    assert one("cast('uint8')").apply(wild, {}).numpy().ravel().tolist() == [0, 0, 0, 0, 127, 128, 255, 255, 255, 0]
    clipped = one("random_brightness()").apply(wild, {"brightness": tf.zeros([1])})
    np.testing.assert_array_equal(clipped, np.fmin(np.fmax(wild, 0), 1))


def test_noise_is_normal_with_the_stated_deviation():
    grey, stage = tf.fill([64, 33, 41, 3], 0.5), GaussianNoise(0.05)
    added = (stage.apply(grey, draws(stage, 64)) - 0.5).numpy().ravel() / 0.05
    assert abs(added.mean()) < 4 / np.sqrt(added.size)
    assert abs(added.std() - 1) < 4 / np.sqrt(2 * added.size)
    assert stats.kstest(added, "norm").pvalue > 0.01


def test_noise_of_pixels_and_images_is_independent():
    rows = normals(keys(GaussianNoise(), 40), 4000)
    assert np.abs(np.corrcoef(rows) - np.eye(40)).max() < 4.5 / np.sqrt(4000)
    # Neighbours, and numbers from one 64-bit word: half a row apart.
    for lag in (1, 2, 3, 2000):
        for values in (rows, rows**2):
            found = np.corrcoef(values[:, :-lag].ravel(), values[:, lag:].ravel())[0, 1]
            assert abs(found) < 4 / np.sqrt(40 * 2000)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 1001])
def test_noise_depends_on_its_seed_only(count):
    together = normals(keys(GaussianNoise(), 9), count)
    np.testing.assert_array_equal(normals(keys(GaussianNoise(), 9)[4:6], count), together[4:6])
