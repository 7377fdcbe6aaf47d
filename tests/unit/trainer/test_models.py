from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.trainer import build


def test_small_cnn_returns_probabilities():
    model = build.model("small_cnn", (8, 12, 3), 5)
    found = model(tf.zeros([2, 8, 12, 3]))
    assert found.shape == (2, 5) and found.dtype == tf.float32
    np.testing.assert_allclose(np.sum(found, axis=1), 1, rtol=1e-5)


def test_probabilities_are_float32_in_mixed_precision():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = build.model("small_cnn", (8, 8, 1), 3)
    assert model.layers[0].compute_dtype == "bfloat16"
    assert model(tf.zeros([1, 8, 8, 1])).dtype == tf.float32


def test_resnet50_is_keras_with_faster_averages():
    model = build.model("resnet50", (32, 32, 3), 10)
    assert model.count_params() == 23_608_202
    assert model.output_shape == (None, 10)
    norms = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    assert len(norms) == 53 and {layer.momentum for layer in norms} == {0.9}


def test_other_names_are_refused():
    with pytest.raises(UsageError, match="'vgg'; known: emulated, resnet50, small_cnn"):
        build.model("vgg", (8, 8, 3), 2)
