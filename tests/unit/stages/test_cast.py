from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import Cast, ImageSpec

pytestmark = pytest.mark.usefixtures("backend")


def test_levels_stay_what_they_are_as_float_and_on_the_way_back():
    every = tf.reshape(tf.cast(tf.range(256), tf.uint8), [1, 16, 16, 1])
    as_float = Cast().apply(every, {})
    assert as_float.dtype == tf.float32
    assert (as_float.numpy() == every.numpy()).all()
    back = Cast("uint8").apply(as_float, {})
    assert back.dtype == tf.uint8
    assert (back.numpy() == every.numpy()).all()


def test_floats_are_rounded_to_the_nearest_level_and_clipped():
    values = np.random.default_rng(1).uniform(-100, 400, (3, 9, 7, 3)).astype(np.float32)
    ours = Cast("uint8").apply(tf.constant(values), {}).numpy()
    assert np.abs(ours - np.clip(np.float64(values), 0, 255)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_the_same_dtype_changes_nothing(dtype):
    batch = tf.cast(np.random.default_rng(1).integers(0, 256, (3, 9, 7, 3)), dtype)
    assert (Cast(dtype).apply(batch, {}).numpy() == batch.numpy()).all()
    spec = ImageSpec(9, 7, 3, dtype, 0.0, 255.0)
    assert Cast(dtype).spec(spec) == spec


@pytest.mark.parametrize(
    ("before", "behind"),
    [((-math.inf, math.inf), (0.0, 255.0)), ((0.0, 1.0), (0.0, 1.0)), ((-3.0, 99.7), (0.0, 100.0))],
)
def test_the_range_is_what_fits_into_uint8(before, behind):
    spec = Cast("uint8").spec(ImageSpec(8, 8, 3, "float32", *before))
    assert (spec.dtype, spec.low, spec.high) == ("uint8", *behind)


def test_a_dtype_that_images_do_not_have_is_refused():
    with pytest.raises(UsageError, match="dtype of stage cast 'int32'; known: float32, uint8"):
        Cast("int32")
