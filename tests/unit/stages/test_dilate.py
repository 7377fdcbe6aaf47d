from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.stages import Dilate

pytestmark = pytest.mark.usefixtures("backend")


def images(dtype: str, height: int = 17, width: int = 12) -> tf.Tensor:
    values = np.random.default_rng(3).integers(0, 256, (5, height, width, 3))
    return tf.constant(values if dtype == "uint8" else values / 16 - 8, dtype)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_dilation_equals_that_of_tensorflow_bit_for_bit(size, dtype):
    batch = images(dtype)
    ours = Dilate(size).apply(batch, {})
    theirs = tf.nn.dilation2d(batch, tf.zeros([size, size, 3], dtype), [1] * 4, "SAME", "NHWC", [1] * 4)
    assert ours.dtype == batch.dtype
    assert (ours.numpy() == theirs.numpy()).all()


def test_a_filter_larger_than_the_image_gives_the_maximum_everywhere():
    batch = images("uint8", 3, 4)
    assert (Dilate(9).apply(batch, {}).numpy() == batch.numpy().max(axis=(1, 2), keepdims=True)).all()


def test_dilation_commutes_with_rescaling():
    batch = images("uint8")
    before = Dilate(3).apply(tf.cast(batch, tf.float32) / 255.0, {})
    after = tf.cast(Dilate(3).apply(batch, {}), tf.float32) / 255.0
    assert (before.numpy() == after.numpy()).all()
