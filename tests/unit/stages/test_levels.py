"""Grey levels: rounding to 256 levels, look-up tables and statistics."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from stage_images import noise, one

from tfhet.stages import levels
from tfhet.stages.levels import lookup

RNG = np.random.default_rng(1)


def test_values_are_rounded_to_the_nearest_level():
    values = tf.constant([-300.0, -0.6, -0.2, 0.4, 0.6, 127.49, 127.51, 254.6, 255.4, 300.0])
    assert levels.restored(values, tf.uint8).numpy().tolist() == [0, 0, 0, 0, 1, 127, 128, 255, 255, 255]
    assert levels.restored(tf.constant([-0.1, 0.3, 1.2]), tf.float32).numpy().tolist() == [0.0, np.float32(0.3), 1.0]
    assert sum(levels.LUMA) == 65536.0


def test_all_levels_survive_conversion_to_float(backend):
    every = tf.cast(tf.reshape(tf.range(256), [1, 16, 16, 1]), tf.uint8)
    np.testing.assert_array_equal(levels.in_levels(levels.as_given(every, tf.float32)), every)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("channels", "columns"), [(1, 1), (3, 1), (3, 3), (5, 5)])
def test_each_image_and_channel_has_its_table(channels, columns, rows, dtype, backend):
    images = RNG.integers(0, 256, (4, 13, 11, channels)).astype(np.uint8)
    tables = RNG.integers(0, 256, (rows, 256, columns)).astype(dtype)
    every = np.broadcast_to(tables, (4, 256, channels))
    exact = np.take_along_axis(every, images.reshape(4, -1, channels).astype(int), axis=1).reshape(images.shape)
    found = lookup(tf.constant(images), tf.constant(tables))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, exact)
    near = np.clip(images + RNG.uniform(-0.49, 0.49, images.shape), 0, 255) / 255
    np.testing.assert_array_equal(lookup(tf.constant(near, tf.float32), tf.constant(tables)), exact)


@pytest.mark.parametrize("text", ["gamma(0.4, 1.2)", "invert()", "posterize(3)", "solarize(99)"])
def test_pointwise_stage_equals_its_table(text, backend):
    stage, images = one(text), noise(height=8, width=9, count=3)
    ramp = tf.cast(tf.tile(tf.reshape(tf.range(256), [1, 1, 256, 1]), [1, 1, 1, 3]), tf.uint8)
    assert stage.pointwise
    np.testing.assert_array_equal(lookup(images, stage.apply(ramp, {})[:, 0]), stage.apply(images, {}))


def test_look_up_keeps_shapes_in_a_graph(backend):
    @tf.function(input_signature=[tf.TensorSpec([None, 5, None, 3], tf.uint8), tf.TensorSpec([None, 256, 3], tf.uint8)])
    def traced(images, tables):
        found = lookup(images, tables)
        assert found.shape.as_list() == [None, 5, None, 3]
        return found

    images = noise(height=5, width=6, count=4)
    identity = np.tile(np.arange(256, dtype=np.uint8)[None, :, None], (1, 1, 3))
    np.testing.assert_array_equal(traced(images, tf.constant(identity)), images)
    four = tf.constant(np.concatenate([identity, 255 - identity, identity, identity]))
    np.testing.assert_array_equal(traced(images, four)[1], 255 - images[1])
