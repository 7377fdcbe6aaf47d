from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st

from tfhet import native
from tfhet.stages.line import Line, apply_line

pytestmark = pytest.mark.skipif(not native.available("tone"), reason="compiled ops cannot be built here")
RNG = np.random.default_rng(1)
WHOLE = tf.constant([[1.0]])


@settings(max_examples=60)
@given(
    st.tuples(st.integers(0, 3), st.integers(1, 50), st.integers(1, 50), st.integers(1, 5)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([tf.uint8, tf.float32]),
    st.sampled_from([tf.uint8, tf.float32]),
)
def test_lines_are_those_of_the_plain_operations_bit_for_bit(plainly, shape, by_image, by_channel, dtype, to):
    images = tf.cast(RNG.uniform(0, 256, shape), dtype)
    size = (shape[0] if by_image else 1, shape[3] if by_channel else 1)
    line = Line.of(*(RNG.uniform(low, high, size) for low, high in ((-2, 2), (-50, 300), (-20, 9), (90, 270))))
    assert (apply_line(images, line, to).numpy() == plainly(apply_line, images, line, to).numpy()).all()


def test_a_line_without_ends_lets_everything_through():
    images = tf.constant([[-np.inf, -1e30, 0.0, 1e30, np.inf, np.nan]])[..., tf.newaxis, tf.newaxis]
    for channels in (1, 3):
        line = Line.of(np.linspace(1, 2, channels))
        wide = tf.tile(images, [1, 1, 1, channels])
        np.testing.assert_array_equal(apply_line(wide, line, tf.float32), wide * line.scale)


def test_values_beyond_all_levels_become_the_ends_and_nan_a_level():
    images = tf.constant([-np.inf, -1e30, 1e30, np.inf, np.nan, 3.4], shape=[1, 6, 1, 1])
    assert apply_line(images, Line.of(), tf.uint8).numpy().ravel().tolist() == [0, 0, 255, 255, 0, 3]
    clipped = apply_line(images, Line.of(low=-1.0, high=2.0), tf.float32).numpy().ravel()
    assert clipped.tolist() == [-1.0, -1.0, 2.0, 2.0, -1.0, 2.0]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.5, 128.0, 255.0, 256.0, 1e9])
def test_solarize_turns_what_is_not_below_the_threshold(dtype, threshold):
    images = RNG.integers(0, 256, (2, 33, 7, 3)).astype(dtype)
    ours = native.ops("tone").tfhet_solarize(tf.constant(images), threshold=threshold)
    negative = 255 - images if dtype == "uint8" else 1 - images
    assert (ours.numpy() == np.where(images >= threshold, negative, images)).all()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (
            lambda ops, images: ops.tfhet_line(images[0], WHOLE, WHOLE, WHOLE, WHOLE, result_type=tf.uint8),
            "3 axes, not 4",
        ),
        (
            lambda ops, images: ops.tfhet_line(images, [[1.0], [2.0]], WHOLE, WHOLE, WHOLE, result_type=tf.uint8),
            r"scale is \[2, 1\], which does not fit 3 images",
        ),
        (
            lambda ops, images: ops.tfhet_line(images, WHOLE, WHOLE, WHOLE, [1.0], result_type=tf.uint8),
            "high has 1 axes",
        ),
        (lambda ops, images: ops.tfhet_lookup(images, tf.zeros([1, 255, 1])), "not .1, 255, 1."),
        (lambda ops, images: ops.tfhet_lookup(images, tf.zeros([2, 256, 1])), "not .2, 256, 1."),
        (lambda ops, images: ops.tfhet_lookup(images, tf.zeros([3, 256, 2])), "not .3, 256, 2."),
        (lambda ops, images: ops.tfhet_contrast(images, tf.zeros([2])), "one factor for each image, or none"),
    ],
)
def test_what_does_not_fit_the_images_is_an_error(call, complaint):
    with pytest.raises(tf.errors.InvalidArgumentError, match=complaint):
        call(native.ops("tone"), tf.zeros([3, 4, 5, 3], tf.uint8))


@pytest.mark.parametrize("shape", [(0, 4, 5, 3), (2, 0, 5, 3), (2, 4, 5, 0)])
def test_nothing_in_is_nothing_out(shape):
    ops, images = native.ops("tone"), tf.zeros(shape, tf.uint8)
    assert ops.tfhet_line(images, WHOLE, WHOLE, WHOLE, WHOLE, result_type=tf.float32).shape == shape
    assert ops.tfhet_lookup(images, tf.zeros([1, 256, 1])).shape == shape
    assert ops.tfhet_contrast(images, []).shape == shape
    assert ops.tfhet_solarize(images, threshold=3.0).shape == shape
