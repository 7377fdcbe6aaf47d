from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st

from tfhet import native
from tfhet.stages.line import Line, apply_line

pytestmark = pytest.mark.skipif(not native.available("tone"), reason="compiled ops cannot be built here")
RNG = np.random.default_rng(1)


@settings(max_examples=60)
@given(
    st.tuples(st.integers(0, 3), st.integers(1, 50), st.integers(1, 50), st.integers(1, 5)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([tf.uint8, tf.float32]),
    st.sampled_from([tf.uint8, tf.float32]),
)
def test_lines_equal_the_plain_ones(plainly, shape, by_image, by_channel, dtype, to):
    images = tf.cast(RNG.uniform(0, 256, shape), dtype)
    size = (shape[0] if by_image else 1, shape[3] if by_channel else 1)
    line = Line.of(*(RNG.uniform(low, high, size) for low, high in ((-2, 2), (-50, 300), (-20, 9), (90, 270))))
    assert (apply_line(images, line, to).numpy() == plainly(apply_line, images, line, to).numpy()).all()


def test_line_without_ends_keeps_all_values():
    images = tf.constant([[-np.inf, -1e30, 0.0, 1e30, np.inf, np.nan]])[..., tf.newaxis, tf.newaxis]
    for channels in (1, 3):
        line = Line.of(np.linspace(1, 2, channels))
        wide = tf.tile(images, [1, 1, 1, channels])
        np.testing.assert_array_equal(apply_line(wide, line, tf.float32), wide * line.scale)


def test_line_with_ends_clips_infinity_and_nan():
    images = tf.constant([-np.inf, -1e30, 1e30, np.inf, np.nan, 3.4], shape=[1, 6, 1, 1])
    assert apply_line(images, Line.of(), tf.uint8).numpy().ravel().tolist() == [0, 0, 255, 255, 0, 3]
    clipped = apply_line(images, Line.of(low=-1.0, high=2.0), tf.float32).numpy().ravel()
    assert clipped.tolist() == [-1.0, -1.0, 2.0, 2.0, -1.0, 2.0]
