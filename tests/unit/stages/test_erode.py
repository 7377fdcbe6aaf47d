from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

from tfhet.errors import UsageError
from tfhet.stages import Erode

pytestmark = pytest.mark.usefixtures("backend")


def images(channels: int = 3) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (5, 17, 12, channels)).astype(np.uint8)


@pytest.mark.parametrize("size", [1, 3, 5, 7])
@pytest.mark.parametrize("channels", [1, 3])
def test_erosion_equals_that_of_scipy_bit_for_bit(size, channels):
    batch = images(channels)
    theirs = ndimage.minimum_filter(batch, (1, size, size, 1), mode="constant", cval=255)
    assert (Erode(size).apply(tf.constant(batch), {}).numpy() == theirs).all()
    as_float = Erode(size).apply(tf.constant(batch / 16 - 8, tf.float32), {})
    assert (as_float.numpy() == np.float32(theirs / 16 - 8)).all()


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_erosion_equals_that_of_tensorflow_bit_for_bit(size):
    batch = tf.constant(images(), tf.float32)
    theirs = tf.nn.erosion2d(batch, tf.zeros([size, size, 3]), [1] * 4, "SAME", "NHWC", [1] * 4)
    assert (Erode(size).apply(batch, {}).numpy() == theirs.numpy()).all()


def test_a_filter_larger_than_the_image_gives_the_minimum_everywhere():
    batch = images()[:, :3, :4]
    assert (Erode(9).apply(tf.constant(batch), {}).numpy() == batch.min(axis=(1, 2), keepdims=True)).all()


def test_an_empty_filter_is_refused():
    with pytest.raises(UsageError, match="erode: size is at least 1, not 0"):
        Erode(0)
