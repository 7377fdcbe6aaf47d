from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st

from tfhet import native
from tfhet.stages import Gamma, Invert, Posterize, Solarize
from tfhet.stages.levels import lookup

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("channels", "columns"), [(1, 1), (3, 1), (3, 3), (5, 5)])
def test_every_value_is_looked_up_in_the_table_of_its_image_and_its_channel(channels, columns, rows, dtype, backend):
    images = RNG.integers(0, 256, (4, 13, 11, channels)).astype(np.uint8)
    tables = RNG.integers(0, 256, (rows, 256, columns)).astype(dtype)
    found = lookup(tf.constant(images), tf.constant(tables))
    every = np.broadcast_to(tables, (4, 256, channels))
    exact = np.take_along_axis(every, images.reshape(4, -1, channels).astype(int), axis=1).reshape(images.shape)
    assert found.dtype == dtype
    assert (found.numpy() == exact).all()


def test_float_images_are_looked_up_at_their_nearest_levels(backend):
    images = RNG.integers(0, 256, (2, 40, 41, 3)).astype(np.uint8)
    aside = np.clip(images + RNG.uniform(-0.49, 0.49, images.shape), 0, 255) / 255
    for tables in (RNG.integers(0, 256, (2, 256, 3)), RNG.integers(0, 256, (1, 256, 1))):
        exact = lookup(tf.constant(images), tf.constant(tables, tf.uint8))
        assert (lookup(tf.constant(aside, tf.float32), tf.constant(tables, tf.uint8)).numpy() == exact.numpy()).all()


@pytest.mark.parametrize("stage", [Gamma(0.4, 1.2), Invert(), Posterize(3), Solarize(99)], ids=lambda stage: stage.name)
def test_a_pointwise_stage_is_the_table_that_it_makes_of_all_levels(stage, backend):
    assert stage.pointwise
    images = tf.constant(RNG.integers(0, 256, (3, 8, 9, 3)), tf.uint8)
    ramp = tf.cast(tf.tile(tf.reshape(tf.range(256), [1, 1, 256, 1]), [1, 1, 1, 3]), tf.uint8)
    assert (lookup(images, stage.apply(ramp, {})[:, 0]).numpy() == stage.apply(images, {}).numpy()).all()


@pytest.mark.skipif(not native.available("tone"), reason="compiled ops cannot be built here")
@settings(max_examples=40)
@given(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(1, 40), st.integers(1, 4)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["uint8", "float32"]),
)
def test_compiled_and_plain_look_ups_are_the_same_for_any_shape(plainly, shape, by_image, by_channel, dtype):
    images = tf.constant(RNG.integers(0, 256, shape), tf.uint8)
    size = (shape[0] if by_image else 1, 256, shape[3] if by_channel else 1)
    tables = tf.constant(RNG.integers(0, 256, size), dtype)
    assert (lookup(images, tables).numpy() == plainly(lookup, images, tables).numpy()).all()


def test_shapes_are_kept_in_a_graph_with_tables_for_an_unknown_number_of_images(backend):
    @tf.function(input_signature=[tf.TensorSpec([None, 5, None, 3], tf.uint8), tf.TensorSpec([None, 256, 3], tf.uint8)])
    def traced(images, tables):
        found = lookup(images, tables)
        assert found.shape.as_list() == [None, 5, None, 3]
        return found

    images = tf.constant(RNG.integers(0, 256, (4, 5, 6, 3)), tf.uint8)
    identity = np.tile(np.arange(256, dtype=np.uint8)[None, :, None], (1, 1, 3))
    assert (traced(images, tf.constant(identity)).numpy() == images.numpy()).all()
    four = tf.constant(np.concatenate([identity, 255 - identity, identity, identity]))
    assert (traced(images, four).numpy()[1] == 255 - images.numpy()[1]).all()
