"""RandAugment and TrivialAugment against Pillow, and against the numbers that torchvision states."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps
from stage_images import by_pillow, draws, noise, uint8

from tfhet.stages import RandAugment, TrivialAugment
from tfhet.stages.policy import BINS, OPERATIONS

SPEC = uint8(24, 31)
ENHANCEMENTS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "color": ImageEnhance.Color,
    "sharpness": ImageEnhance.Sharpness,
}


def photos(count: int, channels: int = 3) -> np.ndarray:
    """Smooth, so that a difference in rounding coordinates shows as little; no channel reaches all levels."""
    rows, columns = np.mgrid[0:24, 0:31] / 31.0
    waves = [
        120 + 90 * np.sin(4 * rows + 3 * columns * (1 + image / 5) + 2 * channel) + 10 * channel
        for image in range(count)
        for channel in range(channels)
    ]
    return np.reshape(np.uint8(waves), (count, channels, 24, 31)).transpose(0, 2, 3, 1)


def one(name: str, strength: float, batch: np.ndarray) -> np.ndarray:
    """The operation on a batch in which every other image draws solarize."""
    count, mixed = len(batch), np.repeat(batch, 2, axis=0)
    operation = np.int32([OPERATIONS.index(name), OPERATIONS.index("solarize")] * count)[:, None]
    drawn = {"operation": operation, "strength": np.float32([strength, 128] * count)[:, None]}
    result = RandAugment(1).apply(tf.constant(mixed), drawn).numpy()
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result[1::2], np.where(mixed[1::2] >= 128, 255 - mixed[1::2], mixed[1::2]))
    return result[::2]


def inside(transform: tuple[float, ...], around: float = -1e-6) -> np.ndarray:
    """bool [24, 31]: pixels whose input lies within the image, or at most so many pixels outside."""
    y, x = np.mgrid[0:24, 0:31]
    a, b, c, d, e, f = transform
    from_x, from_y = a * x + b * y + c, d * x + e * y + f
    return (np.abs(from_x - 15) <= 15 + around) & (np.abs(from_y - 11.5) <= 11.5 + around)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ENHANCEMENTS)
def test_enhancements_equal_pillow_but_for_rounding(name, channels):
    batch = photos(3, channels)
    for strength in (-0.8, -0.27, 0.27, 0.9):
        expected = by_pillow(batch, lambda image, by=1 + strength: ENHANCEMENTS[name](image).enhance(by))
        # Pillow rounds what it blends with (the mean grey, the smoothed image), and truncates the result.
        assert np.abs(np.int32(one(name, strength, batch)) - expected).max() <= 2


@pytest.mark.parametrize("channels", [1, 3])
def test_operations_on_levels_equal_pillow(channels):
    batch = photos(3, channels)
    for name, operation, values in (
        ("posterize", ImageOps.posterize, range(2, 9)),
        ("solarize", ImageOps.solarize, (0, 1, 100, 254, 255)),
    ):
        for value in values:
            expected = by_pillow(batch, lambda image, f=operation, value=value: f(image, value))
            np.testing.assert_array_equal(one(name, value, batch), expected)
    np.testing.assert_array_equal(one("equalize", 0, batch), by_pillow(batch, ImageOps.equalize))
    np.testing.assert_array_equal(one("identity", 0, batch), batch)
    assert np.abs(np.int32(one("autocontrast", 0, batch)) - by_pillow(batch, ImageOps.autocontrast)).max() <= 1


@pytest.mark.parametrize("name", ["shear_x", "shear_y", "rotate"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_moved_images_equal_pillow_inside(name, sign):
    batch, m = photos(3), sign * 0.3
    if name == "rotate":
        ours = one(name, sign * 17.0, batch)
        expected = by_pillow(batch, lambda image: image.rotate(sign * 17.0, Image.Resampling.BILINEAR))
        sine, cosine = np.sin(np.radians(sign * 17.0)), np.cos(np.radians(sign * 17.0))
        x, y = 15.0, 11.5
        transform = (cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y)
    else:
        # Pillow counts from the corner of a pixel.
        transform = (1, m, m / 2, 0, 1, 0) if name == "shear_x" else (1, 0, 0, m, 1, m / 2)
        given = (1, m, 0, 0, 1, 0) if name == "shear_x" else (1, 0, 0, m, 1, 0)
        how = (Image.Transform.AFFINE, given, Image.Resampling.BILINEAR)
        ours, expected = one(name, m, batch), by_pillow(batch, lambda image: image.transform(image.size, *how))
    within, beyond = inside(transform), ~inside(transform, 1.0)
    assert within.mean() > 0.6 and beyond.any()
    # Pillow truncates, and does not blend the outermost pixels with the fill.
    assert np.abs(np.int32(ours) - expected)[:, within].max() <= 1
    assert (ours[:, beyond] == 0).all()


def test_translations_move_whole_pixels():
    batch = photos(2)
    right, down = np.zeros_like(batch), np.zeros_like(batch)
    right[:, :, 4:], down[:, 3:] = batch[:, :, :-4], batch[:, :-3]
    np.testing.assert_array_equal(one("translate_x", 4 / 31, batch), right)
    np.testing.assert_array_equal(one("translate_x", -4 / 31, right)[:, :, :-4], batch[:, :, :-4])
    np.testing.assert_array_equal(one("translate_y", 3 / 24, batch), down)
    drawn = {"operation": np.int32([[3], [4]]), "strength": np.float32([[7], [-5]])}
    ours = TrivialAugment().apply(tf.constant(batch), drawn).numpy()  # its strengths are pixels
    assert (ours[0, :, 7:] == batch[0, :, :-7]).all() and (ours[0, :, :7] == 0).all()
    assert (ours[1, :-5] == batch[1, 5:]).all() and (ours[1, -5:] == 0).all()


def torchvision_strengths(shear: float, translate: float, rotate: float, enhance: float, bits: int) -> np.ndarray:
    """[14, BINS]: the strengths by operation that torchvision has; of thresholds the next whole level."""
    most = np.array([0, shear, shear, translate, translate, rotate, enhance, enhance, enhance, enhance, 0, 0, 0, 0])
    table = np.linspace(0, 1, BINS) * most[:, None]
    table[10] = 8 - np.round(np.arange(BINS) / ((BINS - 1) / bits))
    table[11] = np.ceil(np.round(np.linspace(255, 0, BINS), 6))
    return table


@pytest.mark.parametrize("magnitude", [0, 1, 10, 29, 30])
def test_randaugment_draws_are_uniform_and_layers_independent(magnitude):
    drawn = draws(RandAugment(3, magnitude), 28_000, SPEC)
    operation, strength = drawn["operation"].numpy(), drawn["strength"].numpy()
    assert operation.shape == strength.shape == (28_000, 3)
    for layer in range(3):
        assert np.abs(np.bincount(operation[:, layer], minlength=14) - 2000).max() < 4 * np.sqrt(2000)
    assert np.abs(np.corrcoef(operation.T) - np.eye(3)).max() < 4 / np.sqrt(28_000)
    wanted = torchvision_strengths(0.3, 150 / 331, 30, 0.9, 4)[:, magnitude]
    np.testing.assert_allclose(np.abs(strength), wanted[operation], rtol=1e-6)
    for at, name in enumerate(OPERATIONS):
        below = (strength[operation == at] < 0).mean()
        assert below == 0 or abs(below - 0.5) < 0.03, name
        assert (below > 0) == (1 <= at <= 9 and magnitude > 0), name


def test_trivialaugment_draws_are_uniform():
    drawn = draws(TrivialAugment(), 60_000, SPEC)
    operation, strength = drawn["operation"].numpy()[:, 0], drawn["strength"].numpy()[:, 0]
    assert np.abs(np.bincount(operation, minlength=14) - 60_000 / 14).max() < 4 * np.sqrt(60_000 / 14)
    for at, (name, wanted) in enumerate(zip(OPERATIONS, torchvision_strengths(0.99, 32, 135, 0.99, 6), strict=True)):
        own = strength[operation == at]
        values, counts = np.unique(np.abs(own), return_counts=True)
        np.testing.assert_allclose(values, np.unique(wanted), rtol=1e-6)
        if len(values) == BINS:
            assert np.abs(counts - len(own) / BINS).max() < 5 * np.sqrt(len(own) / BINS), name
            if 1 <= at <= 9:
                assert abs((own < 0).mean() - 0.5 * (1 - 1 / BINS)) < 0.04, name


def test_magnitude_0_changes_only_operations_without_strength():
    batch, stage = tf.constant(photos(120)), RandAugment(1, 0)
    drawn = draws(stage, 120, SPEC)
    same = (stage.apply(batch, drawn).numpy() == batch.numpy()).all(axis=(1, 2, 3))
    changing = np.isin(drawn["operation"].numpy()[:, 0], [OPERATIONS.index(n) for n in ("autocontrast", "equalize")])
    assert set(drawn["operation"].numpy().ravel()) == set(range(14))
    assert same[~changing].all() and not same[changing].any()


def test_layers_are_applied_in_order():
    batch, drawn = tf.constant(photos(40)), draws(RandAugment(2), 40, SPEC)
    first = RandAugment(1).apply(batch, {name: value[:, :1] for name, value in drawn.items()})
    second = RandAugment(1).apply(first, {name: value[:, 1:] for name, value in drawn.items()})
    np.testing.assert_array_equal(RandAugment(2).apply(batch, drawn), second)


def test_trivialaugment_applies_the_operations_of_randaugment():
    batch, drawn = noise(height=40, width=50, count=60), draws(TrivialAugment(), 60, uint8(40, 50))
    kept = drawn["operation"].numpy()[:, 0]
    kept = ~np.isin(kept, [OPERATIONS.index(name) for name in ("translate_x", "translate_y")])
    ours, theirs = (stage.apply(batch, drawn).numpy() for stage in (TrivialAugment(), RandAugment(1)))
    np.testing.assert_array_equal(ours[kept], theirs[kept])
    assert 0 < kept.sum() < 60


def test_float_images_are_their_levels():
    batch, drawn = photos(40), draws(RandAugment(), 40, SPEC)
    levels = RandAugment().apply(tf.constant(batch), drawn).numpy()
    floats = RandAugment().apply(tf.constant(np.float32(batch / 255)), drawn)
    assert floats.dtype == tf.float32
    np.testing.assert_allclose(floats, levels / 255, atol=1e-6)


def test_uncovered_pixels_get_the_fill_value():
    batch = photos(2)
    drawn = {"operation": np.int32([[3], [3]]), "strength": np.float32([[0.5], [0.5]])}
    assert (RandAugment(1, fill_value=128).apply(tf.constant(batch), drawn).numpy()[:, :, :15] == 128).all()
    halves = RandAugment(1, fill_value=0.5).apply(tf.constant(np.float32(batch / 255)), drawn).numpy()
    np.testing.assert_allclose(halves[:, :, :15], 128 / 255, atol=1e-6)
