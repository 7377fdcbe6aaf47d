from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import Cutout, ImageSpec, randomness

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(33, 47, 3, "uint8", 0.0, 255.0)


def images(channels: int = 3, count: int = 100) -> np.ndarray:
    return np.random.default_rng(1).integers(10, 256, (count, 33, 47, channels)).astype(np.uint8)


def drawn(stage: Cutout, count: int) -> dict[str, tf.Tensor]:
    return stage.parameters(randomness.keys(3, "cutout", 0, 0, tf.range(count, dtype=tf.int64)), SPEC)


@pytest.mark.parametrize("size", [2, 8, 40])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_the_square_is_that_of_addons_about_the_same_centre(size, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        addons = pytest.importorskip("tensorflow_addons")
    stage, batch = Cutout(size, value=5), tf.cast(images(), dtype)
    given = drawn(stage, 100)
    centres = tf.stack([given["centre_y"] * 33, given["centre_x"] * 47], axis=1)
    theirs = addons.image.cutout(batch, size, tf.cast(centres, tf.int32), 5)
    ours = stage.apply(batch, given)
    assert ours.dtype == batch.dtype
    assert (ours.numpy() == theirs.numpy()).all()


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_square_of_odd_size_lies_evenly_about_its_centre(size, channels):
    stage, batch = Cutout(size), images(channels)
    given = drawn(stage, 100)
    wanted, reach = batch.copy(), size // 2
    for image, y, x in zip(wanted, given["centre_y"].numpy() * 33, given["centre_x"].numpy() * 47, strict=True):
        image[max(int(y) - reach, 0) : int(y) - reach + size, max(int(x) - reach, 0) : int(x) - reach + size] = 0
    assert (stage.apply(tf.constant(batch), given).numpy() == wanted).all()


def test_every_pixel_is_the_centre_as_often_as_any_other_and_the_same_in_any_batch():
    given = drawn(Cutout(), 50_000)
    for name, length in (("centre_y", 33), ("centre_x", 47)):
        counts = np.bincount((given[name].numpy() * length).astype(int), minlength=length)
        assert counts.size == length
        assert np.abs(counts - 50_000 / length).max() < 4.5 * np.sqrt(50_000 / length)
        assert (drawn(Cutout(), 9)[name].numpy() == given[name].numpy()[:9]).all()
    assert abs(np.corrcoef(given["centre_y"], given["centre_x"])[0, 1]) < 4 / np.sqrt(50_000)


def test_a_centre_that_rounding_would_put_outside_stays_inside():
    last = np.nextafter(np.float32(1), np.float32(0))
    ours = Cutout(1).apply(tf.ones([1, 33, 47, 1]), {"centre_y": tf.constant([last]), "centre_x": tf.constant([last])})
    assert ours.numpy()[0, -1, -1, 0] == 0
    assert ours.numpy().sum() == 33 * 47 - 1


def test_an_empty_square_and_a_value_out_of_range_are_refused():
    with pytest.raises(UsageError, match="cutout: size is at least 1, not 0"):
        Cutout(0)
    with pytest.raises(UsageError, match="cutout: value 2 is outside the images' range, 0 to 1"):
        Cutout(value=2).spec(ImageSpec(8, 8, 3, "float32", 0.0, 1.0))
