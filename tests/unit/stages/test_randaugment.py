from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandAugment, policy, randomness
from tfhet.stages.policy import BINS, OPERATIONS

SPEC = ImageSpec(24, 31, 3, "uint8", 0.0, 255.0)
PLAIN = {
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


def keys(count: int) -> tf.Tensor:
    return randomness.keys(7, "randaugment", 0, 0, tf.range(count, dtype=tf.int64))


def one(name: str, strength: float, batch: np.ndarray, channels: int = 3) -> np.ndarray:
    """The operation on a batch in which every other image draws another one."""
    count = len(batch)
    mixed = np.repeat(batch, 2, axis=0)
    operation = np.int32([OPERATIONS.index(name), OPERATIONS.index("solarize")] * count)[:, None]
    strengths = np.float32([strength, 128] * count)[:, None]
    result = RandAugment(1).apply(tf.constant(mixed), {"operation": operation, "strength": strengths}).numpy()
    assert result.dtype == np.uint8
    assert (result[1::2] == np.where(mixed[1::2] >= 128, 255 - mixed[1::2], mixed[1::2])).all()
    return result[::2]


def pillow(batch: np.ndarray, change) -> np.ndarray:
    squeezed = batch[..., 0] if batch.shape[-1] == 1 else batch
    return np.reshape([np.asarray(change(Image.fromarray(image))) for image in squeezed], batch.shape)


def inside(transform: tuple[float, ...], around: float = -1e-6) -> np.ndarray:
    """bool [24, 31]: pixels whose input lies within the image, or at most so many pixels outside."""
    y, x = np.mgrid[0:24, 0:31]
    a, b, c, d, e, f = transform
    from_x, from_y = a * x + b * y + c, d * x + e * y + f
    return (np.abs(from_x - 15) <= 15 + around) & (np.abs(from_y - 11.5) <= 11.5 + around)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("strength", [-0.8, -0.27, 0.27, 0.9])
@pytest.mark.parametrize("name", PLAIN)
def test_enhancements_are_those_of_pillow_but_for_its_roundings(backend, name, strength, channels):
    batch = photos(3, channels)
    expected = pillow(batch, lambda image: PLAIN[name](image).enhance(1 + strength))
    # Pillow rounds what it blends with (the mean grey, the smoothed image), and cuts the fraction of the result off.
    assert np.abs(np.int32(one(name, strength, batch)) - expected).max() <= 2


@pytest.mark.parametrize("channels", [1, 3])
def test_tables_are_those_of_pillow(backend, channels):
    batch = photos(3, channels)
    for bits in range(2, 9):
        assert (one("posterize", bits, batch) == pillow(batch, lambda i, bits=bits: ImageOps.posterize(i, bits))).all()
    for threshold in (0, 1, 100, 254, 255):
        expected = pillow(batch, lambda i, threshold=threshold: ImageOps.solarize(i, threshold))
        assert (one("solarize", threshold, batch) == expected).all()
    assert (one("equalize", 0, batch) == pillow(batch, ImageOps.equalize)).all()
    assert np.abs(np.int32(one("autocontrast", 0, batch)) - pillow(batch, ImageOps.autocontrast)).max() <= 1
    assert (one("identity", 0, batch) == batch).all()


@pytest.mark.parametrize("magnitude", [9, 30])
def test_compiled_and_plain_operations_give_the_same_images(magnitude, monkeypatch):
    batch, stage = tf.constant(photos(120)), RandAugment(1, magnitude)
    drawn = stage.parameters(keys(120), SPEC)
    compiled = stage.apply(batch, drawn).numpy()
    monkeypatch.setenv("TFHET_NATIVE", "off")
    plain = stage.apply(batch, drawn).numpy()
    assert np.abs(np.int32(compiled) - plain).max() <= 1
    assert (compiled != plain).mean() < 1e-3


@pytest.mark.parametrize("name", ["shear_x", "shear_y", "rotate"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_moved_images_are_those_of_pillow_where_the_image_reaches(backend, name, sign):
    batch = photos(3)
    if name == "rotate":
        ours = one(name, sign * 17.0, batch)
        expected = pillow(batch, lambda image: image.rotate(sign * 17.0, Image.Resampling.BILINEAR))
        sine, cosine = np.sin(np.radians(sign * 17.0)), np.cos(np.radians(sign * 17.0))
        x, y = 15.0, 11.5
        transform = (cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y)
    else:
        m = sign * 0.3
        # Pillow counts from the corner of a pixel.
        transform = (1, m, m / 2, 0, 1, 0) if name == "shear_x" else (1, 0, 0, m, 1, m / 2)
        ours = one(name, m, batch)
        kind, sampled = Image.Transform.AFFINE, Image.Resampling.BILINEAR
        given = (1, m, 0, 0, 1, 0) if name == "shear_x" else (1, 0, 0, m, 1, 0)
        expected = pillow(batch, lambda image: image.transform(image.size, kind, given, sampled))
    within = inside(transform)
    assert within.mean() > 0.6
    # Pillow cuts fractions off, and does not blend the outermost pixels with the fill.
    assert np.abs(np.int32(ours) - expected)[:, within].max() <= 1
    beyond = ~inside(transform, 1.0)
    assert beyond.any() and (ours[:, beyond] == 0).all()


def test_translations_move_whole_pixels(backend):
    batch = photos(2)
    right = np.zeros_like(batch)
    right[:, :, 4:] = batch[:, :, :-4]
    assert (one("translate_x", 4 / 31, batch) == right).all()
    assert (one("translate_x", -4 / 31, right)[:, :, :-4] == batch[:, :, :-4]).all()
    down = np.zeros_like(batch)
    down[:, 3:] = batch[:, :-3]
    assert (one("translate_y", 3 / 24, batch) == down).all()


def test_operations_and_signs_are_uniform_and_layers_independent():
    drawn = RandAugment(3, 10).parameters(keys(28_000), SPEC)
    operation, strength = drawn["operation"].numpy(), drawn["strength"].numpy()
    assert operation.shape == strength.shape == (28_000, 3)
    for layer in range(3):
        counts = np.bincount(operation[:, layer], minlength=14)
        assert np.abs(counts - 2000).max() < 4 * np.sqrt(2000)
    assert np.abs(np.corrcoef(operation.T) - np.eye(3)).max() < 4 / np.sqrt(28_000)
    expected = policy.strengths(**RandAugment.largest)[:, 10]
    np.testing.assert_array_equal(np.abs(strength), expected[operation])
    for at, name in enumerate(OPERATIONS):
        below = (strength[operation == at] < 0).mean()
        assert below == 0 or abs(below - 0.5) < 0.03, name
        assert (below > 0) == (1 <= at <= 9), name
    few = RandAugment(3, 10).parameters(keys(28_000)[40:47], SPEC)
    assert all((few[name].numpy() == value.numpy()[40:47]).all() for name, value in drawn.items())


def test_strengths_are_those_of_torchvision():
    table = dict(zip(OPERATIONS, policy.strengths(**RandAugment.largest), strict=True))
    np.testing.assert_allclose(table["shear_x"], np.linspace(0, 0.3, BINS), atol=1e-6)
    np.testing.assert_allclose(table["translate_y"] * 224, np.linspace(0, 150 / 331 * 224, BINS), atol=1e-4)
    np.testing.assert_allclose(table["rotate"], np.linspace(0, 30, BINS), atol=1e-5)
    np.testing.assert_allclose(table["sharpness"], np.linspace(0, 0.9, BINS), atol=1e-6)
    np.testing.assert_array_equal(table["posterize"], 8 - np.round(np.arange(BINS) / ((BINS - 1) / 4)))
    given = np.linspace(255, 0, BINS)
    for level in range(256):
        np.testing.assert_array_equal(level >= table["solarize"], level >= np.round(given, 6))


def test_with_magnitude_0_only_what_has_no_strength_changes_anything():
    batch = tf.constant(photos(80))
    stage = RandAugment(1, 0)
    drawn = stage.parameters(keys(80), SPEC)
    same = (stage.apply(batch, drawn).numpy() == batch.numpy()).all(axis=(1, 2, 3))
    changing = np.isin(drawn["operation"].numpy()[:, 0], [OPERATIONS.index(n) for n in ("autocontrast", "equalize")])
    assert set(drawn["operation"].numpy().ravel()) == set(range(14))
    assert same[~changing].all() and not same[changing].any()


def test_layers_follow_one_another():
    batch = tf.constant(photos(40))
    drawn = RandAugment(2).parameters(keys(40), SPEC)
    first = RandAugment(1).apply(batch, {name: value[:, :1] for name, value in drawn.items()})
    second = RandAugment(1).apply(first, {name: value[:, 1:] for name, value in drawn.items()})
    assert (RandAugment(2).apply(batch, drawn).numpy() == second.numpy()).all()


@pytest.mark.parametrize("together", [1, 7, 40, 100])
def test_a_batch_worked_on_in_parts_is_the_same(together, monkeypatch):
    batch = tf.constant(photos(40))
    drawn = RandAugment().parameters(keys(40), SPEC)
    expected = RandAugment().apply(batch, drawn).numpy()
    monkeypatch.setattr(policy, "PART_BYTES", together * 24 * 31 * 3)

    @tf.function(input_signature=[SPEC.tensor, tf.TensorSpec([None], tf.uint64)])
    def traced(images, keys):
        result = RandAugment().apply(images, RandAugment().parameters(keys, SPEC))
        assert result.shape.as_list() == [None, 24, 31, 3]
        return result

    for count in (40, 1, 0):
        assert (traced(batch[:count], keys(count)).numpy() == expected[:count]).all()
    assert (RandAugment().apply(batch, drawn).numpy() == expected).all()


def test_float_images_become_what_their_levels_become():
    batch = photos(40)
    drawn = RandAugment().parameters(keys(40), SPEC)
    levels = RandAugment().apply(tf.constant(batch), drawn).numpy()
    floats = RandAugment().apply(tf.constant(np.float32(batch / 255)), drawn)
    assert floats.dtype == tf.float32
    np.testing.assert_allclose(floats, levels / 255, atol=1e-6)


def test_what_is_laid_open_is_filled():
    batch = photos(2)
    drawn = {"operation": np.int32([[3], [3]]), "strength": np.float32([[0.5], [0.5]])}
    assert (RandAugment(1, fill_value=128).apply(tf.constant(batch), drawn).numpy()[:, :, :15] == 128).all()
    halves = RandAugment(1, fill_value=0.5).apply(tf.constant(np.float32(batch / 255)), drawn).numpy()
    np.testing.assert_allclose(halves[:, :, :15], 128 / 255, atol=1e-6)


def test_text_reads_back():
    assert stages.parse("randaugment(3, magnitude=5)") == (RandAugment(3, 5),)
    assert stages.text((RandAugment(3, 9, 7),)) == "randaugment(num_layers=3, fill_value=7.0)"


@pytest.mark.parametrize("settings", [{"num_layers": 0}, {"magnitude": 31}, {"magnitude": -1}])
def test_numbers_out_of_range_are_refused(settings):
    with pytest.raises(UsageError, match="num_layers is at least 1, not 0|magnitude is from 0 to 30, not (31|-1)"):
        RandAugment(**settings)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (ImageSpec(9, 9, 4, "uint8", 0.0, 255.0), "1 or 3 channels, not 4"),
        (ImageSpec(9, 9, 3, "float32", -1.0, 1.0), "needs float32 images from 0 to 1"),
        (ImageSpec(9, 1, 3, "uint8", 0.0, 255.0), "at least 2 pixels each way"),
        (ImageSpec(9, 9, 3, "float32", 0.0, 1.0), "fill_value 7 is outside"),
    ],
)
def test_images_that_do_not_fit_are_refused(spec, complaint):
    with pytest.raises(UsageError, match=complaint):
        RandAugment(fill_value=7).spec(spec)
