"""Stages that paint over, mix or label: cutout, random_erasing, cutmix, mixup and one_hot."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from stage_images import draws, noise, uint8

from tfhet.errors import UsageError
from tfhet.source import ArraySpec
from tfhet.stages import Cutmix, Cutout, Mixup, OneHot, RandomErasing, mixup

SPEC = uint8(33, 47)


def bright(dtype: str = "uint8", channels: int = 3, count: int = 6) -> tf.Tensor:
    """Without the values that are painted in these tests, so that what was painted can be seen."""
    return noise(dtype, 33, 47, channels, count, low=10)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 40, 100])
def test_cutout_is_a_square_around_its_centre(size):
    stage, batch = Cutout(size, 5.0), bright(count=100).numpy()
    drawn = draws(stage, 100)
    ours = stage.apply(tf.constant(batch), drawn)
    centres = drawn["centre_y"].numpy() * 33, drawn["centre_x"].numpy() * 47
    for image, y, x in zip(batch, *(values.astype(int) for values in centres), strict=True):
        top, left = y - size // 2, x - size // 2  # an even square reaches one pixel further up and left
        image[max(top, 0) : max(top + size, 0), max(left, 0) : max(left + size, 0)] = 5
    np.testing.assert_array_equal(ours, batch)


def test_cutout_centre_rounded_up_stays_inside():
    last = tf.constant([np.nextafter(np.float32(1), np.float32(0))])
    ours = Cutout(1).apply(tf.ones([1, 33, 47, 1]), {"centre_y": last, "centre_x": last}).numpy()
    assert ours[0, -1, -1, 0] == 0
    assert ours.sum() == 33 * 47 - 1


@pytest.mark.parametrize("channels", [1, 3])
def test_erased_image_loses_rectangle_of_drawn_shape(channels):
    stage, batch = RandomErasing(0.5), bright(channels=channels, count=300)
    drawn = {name: value.numpy() for name, value in draws(stage, 300, SPEC).items()}
    ours = stage.apply(batch, drawn).numpy()
    gone = (ours == 0).all(axis=-1)
    assert (gone | (ours == batch.numpy()).all(axis=-1)).all()
    assert (gone.any(axis=(1, 2)) == drawn["erase"]).all()
    for index in np.flatnonzero(drawn["erase"]):
        rows, columns = np.flatnonzero(gone[index].any(axis=1)), np.flatnonzero(gone[index].any(axis=0))
        assert gone[index, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        area = drawn["area"][index] * 33 * 47
        assert abs(rows.size - min(np.sqrt(area * drawn["ratio"][index]), 33)) <= 0.5 + 1e-3
        assert abs(columns.size - min(np.sqrt(area / drawn["ratio"][index]), 47)) <= 0.5 + 1e-3
        assert (rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1) == (rows.size, columns.size)


def test_erased_places_are_equally_likely():
    places = np.linspace(0, 1, 300, endpoint=False, dtype=np.float32)
    drawn = {"erase": tf.fill([300], True), "area": tf.fill([300], 9 / 120), "ratio": tf.ones([300])}
    drawn |= {"top": tf.constant(places), "left": tf.constant(places[::-1].copy())}
    ours = RandomErasing().apply(tf.ones([300, 10, 12, 1]), drawn).numpy()[..., 0]
    for axis, count in ((2, 8), (1, 10)):
        first = (ours == 0).any(axis=axis).argmax(axis=1)
        assert np.abs(np.bincount(first, minlength=count) - 300 / count).max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_cutmix_pastes_the_next_image_and_mixes_labels(dtype):
    batch, stage = noise(dtype, 20, 30, count=40).numpy(), Cutmix()
    drawn = {name: value.numpy() for name, value in draws(stage, 40, uint8(20, 30)).items()}
    ours = stage.apply(tf.constant(batch), drawn)
    labels = stage.labels(tf.eye(40), drawn).numpy()
    assert ours.dtype == dtype
    expected = batch.copy()
    for index in range(40):
        rows = slice(drawn["top"][index], drawn["bottom"][index])
        columns = slice(drawn["left"][index], drawn["right"][index])
        expected[index, rows, columns] = batch[(index + 1) % 40, rows, columns]
        share = (rows.stop - rows.start) * (columns.stop - columns.start) / 600
        wanted = (1 - share) * np.eye(40)[index] + share * np.eye(40)[(index + 1) % 40]
        np.testing.assert_allclose(labels[index], wanted, atol=1e-6)
    np.testing.assert_array_equal(ours, expected)


def test_cutmix_area_and_centre_are_uniform():
    drawn = {name: value.numpy() for name, value in draws(Cutmix(), 20_000, uint8(1000, 1000)).items()}
    inside = (drawn["top"] > 0) & (drawn["bottom"] < 1000) & (drawn["left"] > 0) & (drawn["right"] < 1000)
    tall, wide = drawn["bottom"] - drawn["top"], drawn["right"] - drawn["left"]
    assert (tall[inside] == wide[inside]).all()
    assert (drawn["top"] >= 0).all() and (drawn["bottom"] <= 1000).all() and (tall >= 0).all()
    # A side s lies inside with probability (1 - s)**2, and s = sqrt(area): E = integral of (1 - sqrt(u))**2 = 1/6.
    assert abs(inside.mean() - 1 / 6) < 0.01
    assert drawn["share"].min() < 2e-4 and drawn["share"].max() > 0.95
    centre = ((drawn["top"] + drawn["bottom"]) / 2)[inside & (tall < 20)]
    assert abs(centre.mean() - 500) < 30


def test_mixup_blends_with_the_next_example():
    batch, stage = noise(count=7).numpy(), Mixup(1.0)
    drawn = draws(stage, 7)
    share = np.float64(drawn["share"])

    def blend(values: np.ndarray) -> np.ndarray:
        own = share.reshape([-1] + [1] * (values.ndim - 1))
        return (1 - own) * values + own * np.roll(values, -1, axis=0)

    floats = stage.apply(tf.constant(np.float32(batch / 255)), drawn)
    assert floats.dtype == tf.float32
    np.testing.assert_allclose(floats, blend(batch / 255), atol=1e-6)
    levels = stage.apply(tf.constant(batch), drawn)
    assert levels.dtype == tf.uint8
    assert np.abs(levels.numpy() - blend(batch)).max() <= 0.5 + 1e-3
    labels = np.eye(5, dtype=np.float32)[[0, 1, 2, 3, 4, 0, 0]]
    np.testing.assert_allclose(stage.labels(tf.constant(labels), drawn), blend(labels), atol=1e-6)


@pytest.mark.parametrize("stage", [Mixup(), Cutmix()], ids=["mixup", "cutmix"])
def test_batches_of_one_and_none_stay(stage):
    for batch in (noise(count=1), noise("float32", count=1), noise(count=1)[:0]):
        drawn = draws(stage, len(batch))
        np.testing.assert_array_equal(stage.apply(batch, drawn), batch)
        labels = tf.constant(np.eye(3)[: len(batch)], tf.float32)
        np.testing.assert_array_equal(stage.labels(labels, drawn), labels)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5, 0.99, 1.0, 1.5, 8.0, 1000.0, 1e6])
def test_mixup_shares_are_beta_distributed(alpha):
    values = mixup.quantiles(alpha)
    expected = (np.arange(len(values)) + 0.5) / len(values)
    assert (np.diff(values) >= 0).all() and values[0] >= 0 and values[-1] <= 1
    at = tf.constant(alpha, tf.float64)
    inner = values < 0.5  # the upper half is the lower one mirrored; near 1 float64 cannot tell values apart
    np.testing.assert_allclose(values[::-1], 1 - values, atol=1e-12)
    np.testing.assert_allclose(tf.math.betainc(at, at, tf.constant(values))[inner], expected[inner], atol=2e-5)
    np.testing.assert_allclose(values.var(), 0.25 / (2 * alpha + 1), rtol=2e-3)
    drawn = draws(Mixup(alpha), 20_000)["share"].numpy()
    assert abs(drawn.mean() - 0.5) < 4 * values.std() / np.sqrt(20_000)
    assert abs(drawn.var() / values.var() - 1) < 0.05


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint8])
def test_one_hot_labels(dtype):
    images = tf.zeros([2, 3, 3, 1], tf.uint8)
    rows = OneHot(4).labels(tf.constant([2, 0, 3], dtype), {})
    assert rows.dtype == tf.float32
    np.testing.assert_array_equal(rows, np.eye(4)[[2, 0, 3]])
    assert OneHot(4).label_spec(ArraySpec((None,), dtype.name)) == ArraySpec((None, 4), "float32")
    np.testing.assert_array_equal(OneHot(4).apply(images, {}), images)
    assert OneHot(4).labels(tf.zeros([0], dtype), {}).shape == (0, 4)


def test_label_smoothing_equals_the_keras_loss():
    labels = tf.constant([1, 4], tf.int64)
    given = tf.keras.losses.CategoricalCrossentropy(label_smoothing=0.1, reduction="none")
    probabilities = tf.nn.softmax(tf.random.stateless_normal([2, 5], [1, 2]))
    ours = tf.keras.losses.categorical_crossentropy(OneHot(5, 0.1).labels(labels, {}), probabilities)
    np.testing.assert_allclose(ours, given(tf.one_hot(labels, 5), probabilities), rtol=1e-5)


@pytest.mark.parametrize("label", [-1, 3])
def test_label_outside_the_classes_is_an_error(label):
    data = tf.data.Dataset.from_tensors(tf.constant([0, label], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match="one_hot: a label"):
        list(data.map(lambda labels: OneHot(3).labels(labels, {})))
    with pytest.raises(UsageError, match=rf"one_hot: a label .* 0 to 2: \[{label}\]"):
        OneHot(3).labels(np.array([0, label]), {})
