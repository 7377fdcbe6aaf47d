from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.stages import ImageSpec, Rescale

pytestmark = pytest.mark.usefixtures("backend")


@pytest.mark.parametrize(("scale", "offset"), [(1 / 255, 0.0), (1 / 127.5, -1.0)])
def test_rescaling_equals_the_keras_layer(scale, offset):
    batch = tf.constant(np.random.default_rng(1).integers(0, 256, (4, 8, 8, 3)), tf.uint8)
    ours = Rescale(scale, offset).apply(batch, {})
    assert ours.dtype == tf.float32
    assert (ours.numpy() == tf.keras.layers.Rescaling(scale, offset)(batch).numpy()).all()


def test_the_range_of_the_result_is_that_of_the_input_scaled():
    spec = Rescale(1 / 127.5, -1.0).spec(ImageSpec(8, 8, 3, "uint8", 0.0, 255.0))
    assert (spec.dtype, spec.low, spec.high) == ("float32", -1.0, pytest.approx(1.0))
