from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import Cutmix, ImageSpec, randomness

SPEC = ImageSpec(20, 30, 3, "uint8", 0.0, 255.0)


def images(count: int, dtype: str = "uint8") -> np.ndarray:
    values = np.random.default_rng(2).integers(0, 256, (count, 20, 30, 3))
    return values.astype(np.uint8) if dtype == "uint8" else np.float32(values / 255)


def keys(count: int) -> tf.Tensor:
    return randomness.keys(7, "cutmix", 0, 0, tf.range(count, dtype=tf.int64))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_the_rectangle_is_exactly_that_of_the_next_image(backend, dtype):
    batch = images(40, dtype)
    drawn = {name: value.numpy() for name, value in Cutmix().parameters(keys(40), SPEC).items()}
    ours = Cutmix().apply(tf.constant(batch), drawn)
    assert ours.dtype == dtype
    expected = batch.copy()
    for index in range(40):
        rows = slice(drawn["top"][index], drawn["bottom"][index])
        columns = slice(drawn["left"][index], drawn["right"][index])
        expected[index, rows, columns] = batch[(index + 1) % 40, rows, columns]
    np.testing.assert_array_equal(ours, expected)


def test_labels_are_mixed_by_the_part_of_the_pixels(backend):
    flat = np.zeros((40, 20, 30, 1), np.float32) + np.arange(40, dtype=np.float32)[:, None, None, None]
    drawn = Cutmix().parameters(keys(40), SPEC)
    pixels = Cutmix().apply(tf.constant(flat), drawn).numpy()[..., 0]
    labels = Cutmix().labels(tf.eye(40), drawn).numpy()
    for index in range(40):
        found, counts = np.unique(pixels[index], return_counts=True)
        expected = np.zeros(40)
        expected[found.astype(int)] = counts / 600
        np.testing.assert_allclose(labels[index], expected, atol=1e-6)


def test_the_area_is_uniform_before_it_is_cut_off_and_the_centre_is_any_pixel():
    large = ImageSpec(1000, 1000, 3, "uint8", 0.0, 255.0)
    drawn = {name: value.numpy() for name, value in Cutmix().parameters(keys(20_000), large).items()}
    inside = (drawn["top"] > 0) & (drawn["bottom"] < 1000) & (drawn["left"] > 0) & (drawn["right"] < 1000)
    tall, wide = drawn["bottom"] - drawn["top"], drawn["right"] - drawn["left"]
    assert (tall[inside] == wide[inside]).all()
    assert (drawn["top"] >= 0).all() and (drawn["bottom"] <= 1000).all() and (tall >= 0).all()
    # A side s lies inside with probability (1 - s)**2, and s = sqrt(area): E = integral of (1 - sqrt(u))**2 = 1/6.
    assert abs(inside.mean() - 1 / 6) < 0.01
    assert drawn["share"].min() < 1e-4 and drawn["share"].max() > 0.95
    centre = ((drawn["top"] + drawn["bottom"]) / 2)[inside & (tall < 20)]
    assert abs(centre.mean() - 500) < 30
    few = Cutmix().parameters(keys(20_000)[5:9], large)
    assert all((few[name].numpy() == value[5:9]).all() for name, value in drawn.items())


def test_a_batch_of_one_stays_as_it_is_and_so_does_an_empty_one(backend):
    for count in (1, 0):
        drawn = Cutmix().parameters(keys(count), SPEC)
        np.testing.assert_array_equal(Cutmix().apply(tf.constant(images(count)), drawn), images(count))
        labels = tf.constant(np.eye(3)[:count], tf.float32)
        np.testing.assert_array_equal(Cutmix().labels(labels, drawn), labels)


def test_images_of_unknown_size_class_numbers_and_bad_alphas_are_refused():
    with pytest.raises(UsageError, match="cutmix: height and width of the images must be known"):
        Cutmix().spec(ImageSpec(None, 30, 3, "uint8", 0.0, 255.0))
    with pytest.raises(UsageError, match="cutmix: cannot mix labels of int32"):
        Cutmix().label_spec(tf.TensorSpec([None], tf.int32))
    with pytest.raises(UsageError, match="cutmix: alpha is above 0"):
        Cutmix(0.0)
