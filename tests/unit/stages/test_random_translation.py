"""Translation against the Keras layer, Addons and plain slicing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomTranslation, parse, randomness, text

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(20, 28, 3, "uint8", 0.0, 255.0)
DOWN = np.float32([-0.6, -0.25, 0.0, 0.1, 0.4, 1.0])
RIGHT = np.float32([0.3, -1.0, 0.0, 0.5, -0.01, 0.2])
FILL_MODES = ["constant", "nearest", "reflect", "wrap"]
keras_2 = pytest.mark.skipif(getattr(tf.keras, "__version__", "2") >= "3", reason="Keras 3 layers draw elsewhere")


def images(dtype: str = "float32", height: int = 20, width: int = 28, channels: int = 3) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (6, height, width, channels)), dtype)


def moves(down: np.ndarray = DOWN, right: np.ndarray = RIGHT) -> dict[str, tf.Tensor]:
    return {"down": tf.constant(down, tf.float32), "right": tf.constant(right, tf.float32)}


@keras_2
@pytest.mark.parametrize("fill_mode", FILL_MODES)
@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (17, 9, 1)])
def test_translation_equals_the_keras_layer_bit_for_bit_when_it_draws_the_same(fill_mode, height, width, channels):
    batch = images("float32", height, width, channels)
    layer = tf.keras.layers.RandomTranslation(1.0, 1.0, fill_mode, fill_value=3.0)
    drawn = iter((DOWN, RIGHT))
    layer._random_generator.random_uniform = lambda shape, minval, maxval, dtype: tf.reshape(next(drawn), shape)
    theirs = layer(batch, training=True)
    ours = RandomTranslation(1, 1, fill_mode, 3.0).apply(batch, moves())
    assert (ours.numpy() == theirs.numpy()).all()


@pytest.mark.parametrize("fill_mode", FILL_MODES)
def test_whole_pixels_are_moved_as_by_addons(fill_mode):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        addons = pytest.importorskip("tensorflow_addons")
    pixels = np.float32([[2, -3], [0, 0], [-5, 7], [1, 1], [20, 0], [-4, 28]])  # right, down
    batch = images("uint8", 32, 32)
    theirs = addons.image.translate(batch, pixels, "bilinear", fill_mode, fill_value=9.0)
    ours = RandomTranslation(1, 1, fill_mode, 9.0).apply(batch, moves(pixels[:, 1] / 32, pixels[:, 0] / 32))
    assert ours.dtype == tf.uint8
    assert (ours.numpy() == theirs.numpy()).all()


def test_positive_fractions_move_the_content_down_and_to_the_right():
    batch = images("uint8", 8, 16)
    ours = RandomTranslation(fill_mode="constant", fill_value=7).apply(batch, moves(np.full(6, 0.25), np.full(6, 0.5)))
    expected = np.full((6, 8, 16, 3), 7, np.uint8)
    expected[:, 2:, 8:] = batch[:, :-2, :-8]
    assert (ours.numpy() == expected).all()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_half_a_pixel_is_the_mean_of_two_and_uint8_is_rounded(dtype):
    batch = images(dtype, 10, 10)
    ours = RandomTranslation().apply(batch, moves(np.zeros(6, np.float32), np.full(6, 0.05, np.float32))).numpy()
    mean = (np.float32(batch[:, :, 1:]) + np.float32(batch[:, :, :-1])) / 2
    if dtype == "uint8":
        mean = np.rint(mean)
    np.testing.assert_allclose(ours[:, :, 1:], mean, atol=1.0 if dtype == "uint8" else 1e-3)
    assert (ours[:, :, 1:] == mean).mean() > 0.95 or dtype == "float32"


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("fill_mode", FILL_MODES)
def test_factors_of_zero_leave_every_image_as_it_is(dtype, fill_mode):
    stage = RandomTranslation(0, 0, fill_mode)
    keys = randomness.keys(0, stage.name, 0, 0, tf.range(6, dtype=tf.int64))
    assert (stage.apply(images(dtype), stage.parameters(keys, SPEC)).numpy() == images(dtype).numpy()).all()


def test_moves_are_drawn_evenly_independently_and_for_each_example_alone():
    from scipy import stats

    stage = RandomTranslation(0.2, 0.5)
    ids = tf.range(20_000, dtype=tf.int64)
    drawn = stage.parameters(randomness.keys(3, stage.name, 0, 0, ids), SPEC)
    assert set(drawn) == {"down", "right"}
    for name, most in (("down", 0.2), ("right", 0.5)):
        values = drawn[name].numpy()
        assert -most <= values.min() and values.max() <= most
        assert stats.kstest(values, stats.uniform(-most, 2 * most).cdf).pvalue > 0.01
    assert abs(np.corrcoef(drawn["down"], drawn["right"])[0, 1]) < 4 / np.sqrt(20_000)
    alone = stage.parameters(randomness.keys(3, stage.name, 0, 0, ids[77:78]), SPEC)
    assert all(alone[name].numpy()[0] == drawn[name].numpy()[77] for name in drawn)


def test_only_a_constant_fill_forbids_a_rescale_to_move_past():
    assert [RandomTranslation(fill_mode=mode).commutes_with_rescale for mode in FILL_MODES] == [False, True, True, True]


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: RandomTranslation(1.5), "random_translation: height_factor is from 0 to 1, not 1.5"),
        (lambda: RandomTranslation(0.1, -0.1), "width_factor is from 0 to 1, not -0.1"),
        (lambda: RandomTranslation(fill_mode="REFLECT"), "fill_mode of stage random_translation 'REFLECT'; known: con"),
        (lambda: RandomTranslation(fill_mode="constant", fill_value=256).spec(SPEC), "256 is outside"),
    ],
)
def test_what_is_out_of_range_is_refused(build, complaint):
    with pytest.raises(UsageError, match=complaint):
        build()


def test_it_reads_from_text_and_back():
    stages = parse("random_translation(0.2, 0, fill_mode='wrap')")
    assert stages == (RandomTranslation(0.2, 0.0, "wrap"),) == parse(text(stages))
