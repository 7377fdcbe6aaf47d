from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, parse
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


def images(height: int, width: int, channels: int = 3) -> ImageSpec:
    return ImageSpec(height, width, channels, "uint8", 0.0, 255.0)


@pytest.mark.parametrize(
    ("given", "chain", "reason"),
    [
        (ImageSpec(None, None, 0, "encoded", 0.0, 255.0), "imagenet-train", "the data are image files"),
        (images(32, 32), "aws-cifar", "the images are small, 32x32"),
        (images(64, 8, 1), "aws-cifar", "the images are small, 64x8"),
        (images(65, 8), "random_resized_crop(65, 8); random_flip(); rescale()", "the images are 65x8"),
        (images(224, 224, 1), "random_resized_crop(224, 224); random_flip(); rescale()", "the images are 224x224"),
    ],
)
def test_chain_is_chosen_for_the_images(given, chain, reason):
    assert build.default_chain(given) == (chain, reason)
    spec = given
    for stage in parse(chain):
        stage.admit(spec)
        spec = stage.spec(spec)
    assert spec.height and spec.width and spec.dtype == "float32" and not spec.ragged
