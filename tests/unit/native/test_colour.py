"""Colours, statistics, noise, rectangles and the hash: each compiled op against the plain operations."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st

from tfhet import native
from tfhet.stages import GaussianNoise, Grayscale, RandomSaturation, randomness
from tfhet.stages.colour import mixed
from tfhet.stages.levels import Statistics
from tfhet.stages.painting import painted

pytestmark = pytest.mark.skipif(not native.available("colour"), reason="compiled ops cannot be built here")
RNG = np.random.default_rng(1)
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 30), st.integers(1, 30))
DTYPES = st.sampled_from(["uint8", "float32"])


def images(size: tuple[int, ...], dtype: str, channels: int = 3) -> tf.Tensor:
    """Noise, with some black, white and grey pixels, whose hue is no number."""
    batch = RNG.integers(0, 256, (*size, channels))
    batch[RNG.random(size) < 0.1] = RNG.choice([0, 77, 255])
    return tf.constant(batch, tf.uint8) if dtype == "uint8" else tf.constant(batch / 255, tf.float32)


def close(ours: tf.Tensor, plain: tf.Tensor) -> bool:
    """At most one level apart, and in one place of a hundred; or 1e-5 apart."""
    assert ours.dtype == plain.dtype
    differences = np.abs(np.float32(ours) - np.float32(plain))
    if ours.dtype == tf.uint8:
        return differences.max() <= 1 and (differences > 0).sum() <= 1 + 0.01 * differences.size
    return differences.max() <= 1e-5


@settings(max_examples=50)
@given(SIZES, DTYPES, st.booleans(), st.sampled_from(["none", "one", "each"]))
def test_mixes_and_turns_equal_the_plain_ones(plainly, size, dtype, turned, mixing):
    batch, full = images(size, dtype), 255 if dtype == "uint8" else 1
    rows = {"none": 0, "one": 1, "each": size[0]}[mixing]
    matrices = tf.constant(RNG.uniform(-0.5, 1.2, (rows, 3, 3)), tf.float32) if rows else None
    offsets = tf.constant(RNG.uniform(-0.2, 0.2, (rows, 3)) * full, tf.float32) if rows else None
    turns = tf.constant(RNG.uniform(-2, 2, size[0]), tf.float32) if turned or not rows else None
    assert close(mixed(batch, matrices, offsets, turns), plainly(mixed, batch, matrices, offsets, turns))


@settings(max_examples=30)
@given(SIZES, DTYPES)
def test_saturation_and_grey_equal_the_plain_ones(plainly, size, dtype):
    batch = images(size, dtype)
    factors = tf.constant(RNG.uniform(0, 3, size[0]), tf.float32)
    stage = RandomSaturation()
    assert close(stage.apply(batch, {"saturation": factors}), plainly(stage.apply, batch, {"saturation": factors}))
    for channels in (1, 3):
        grey = Grayscale(channels)
        assert close(grey.apply(batch, {}), plainly(grey.apply, batch, {}))


@pytest.mark.parametrize("gain", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("gamma", [0.01, 0.4, 1.0, 2.2, 30.0])
def test_powers_equal_numpy(gamma, gain):
    values = np.float32([0.0, 1e-45, 1e-38, 1e-30, 1e-6, *np.linspace(0, 1, 5001)]).reshape(1, -1, 2, 1)
    ours = native.ops("power").tfhet_power(tf.constant(values), gamma=gamma, gain=gain).numpy()
    normal = (values == 0) | (values > 1e-37)
    exact = np.minimum(gain * np.float64(values) ** np.float32(gamma), 1)
    np.testing.assert_allclose(ours[normal], exact[normal], rtol=1e-5, atol=1e-6)
    assert ours.max() <= 1


@settings(max_examples=40)
@given(SIZES, DTYPES, st.integers(1, 7))
def test_statistics_equal_numpy(size, dtype, channels):
    batch = images(size, dtype, channels)
    found, values = Statistics.of(batch), batch.numpy().astype(np.float64)
    np.testing.assert_allclose(found.mean, values.mean(axis=(1, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.low, values.min(axis=(1, 2)))
    np.testing.assert_array_equal(found.high, values.max(axis=(1, 2)))


@pytest.mark.parametrize("level", [0, 3, 255])
def test_mean_of_a_large_plain_image_is_exact(level):
    assert (Statistics.of(tf.fill([2, 301, 517, 3], tf.constant(level, tf.uint8))).mean.numpy() == level).all()
    assert (Statistics.of(tf.fill([2, 301, 517, 3], level / 256)).mean.numpy() == level / 256).all()


@settings(max_examples=30)
@given(SIZES, DTYPES, st.integers(1, 3))
def test_noise_equals_the_plain_one(plainly, size, dtype, channels):
    batch = images(size, dtype, channels)
    seeds = tf.constant(RNG.integers(0, 1 << 64, size[0], np.uint64))
    drawn = {"noise": seeds}
    assert close(GaussianNoise(0.2).apply(batch, drawn), plainly(GaussianNoise(0.2).apply, batch, drawn))


@settings(max_examples=40)
@given(SIZES, DTYPES, st.data())
def test_rectangles_equal_the_plain_ones(plainly, size, dtype, data):
    edge = st.one_of(st.floats(-40, 40, width=16), st.sampled_from([-np.inf, np.inf, np.nan, 1e30]))
    edges = [tf.constant(data.draw(st.lists(edge, min_size=size[0], max_size=size[0])), tf.float32) for _ in range(4)]
    batch = images(size, dtype)
    ours, plain = painted(batch, *edges, 1.0), plainly(painted, batch, *edges, 1.0)
    known = ~np.isnan(tf.stack(edges).numpy()).any(axis=0)
    assert (ours.numpy()[known] == plain.numpy()[known]).all()


@pytest.mark.parametrize("epoch", [7, tf.constant(7, tf.int64), tf.constant([1, 2, -3, 4], tf.int64)])
def test_hash_and_draws_equal_the_plain_ones(epoch, monkeypatch):
    def drawn() -> list[np.ndarray]:
        keys = randomness.keys(3, "a", 2, epoch, tf.constant([0, 1 << 40, -1, 77], tf.int64))
        assert keys.shape == (4,)
        return [keys, randomness.bits(keys, 5), randomness.uniform(keys, 1, -0.3, 0.7)]

    compiled = drawn()
    monkeypatch.setenv("TFHET_NATIVE", "off")
    for ours, plain in zip(compiled, drawn(), strict=True):
        assert ours.dtype == plain.dtype
        assert (ours.numpy() == plain.numpy()).all()
