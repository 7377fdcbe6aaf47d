from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.trainer import build


def test_the_small_one_puts_out_probabilities_of_the_classes():
    model = build.model("small_cnn", (8, 12, 3), 5)
    found = model(tf.zeros([2, 8, 12, 3]))
    assert found.shape == (2, 5) and found.dtype == tf.float32
    np.testing.assert_allclose(np.sum(found, axis=1), 1, rtol=1e-5)


def test_probabilities_are_float32_in_mixed_precision_too():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = build.model("small_cnn", (8, 8, 1), 3)
    assert model.layers[0].compute_dtype == "bfloat16"
    assert model(tf.zeros([1, 8, 8, 1])).dtype == tf.float32


def test_resnet50_is_the_one_of_keras():
    model = build.model("resnet50", (32, 32, 3), 10)
    assert model.count_params() == 23_608_202
    assert model.output_shape == (None, 10)


def test_other_names_are_refused_with_those_that_there_are():
    with pytest.raises(UsageError, match="unknown model 'vgg'; known: emulated, resnet50, small_cnn"):
        build.model("vgg", (8, 8, 3), 2)
