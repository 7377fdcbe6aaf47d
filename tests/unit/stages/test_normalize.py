from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, Normalize

pytestmark = pytest.mark.usefixtures("backend")

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
UINT8 = ImageSpec(8, 8, 3, "uint8", 0.0, 255.0)


def images(channels: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (4, 19, 17, channels)).astype(np.uint8)


def test_uint8_images_become_what_two_steps_would_make_of_them():
    ours = Normalize(MEAN, STD).apply(tf.constant(images()), {})
    assert ours.dtype == tf.float32
    np.testing.assert_allclose(ours, (images() / 255 - MEAN) / STD, atol=2e-6)


def test_float_images_are_taken_as_they_are():
    batch = images(1) / 16 - 7
    ours = Normalize((0.25,), (2.5,)).apply(tf.constant(batch, tf.float32), {})
    np.testing.assert_allclose(ours, (batch - 0.25) / 2.5, atol=1e-6)


def test_normalising_equals_the_keras_layer():
    layer = tf.keras.layers.Normalization(mean=MEAN, variance=np.square(STD))
    batch = tf.constant(images() / 255, tf.float32)
    np.testing.assert_allclose(Normalize(MEAN, STD).apply(batch, {}), layer(batch), atol=2e-6)


def test_the_spec_has_the_range_that_comes_out():
    spec = Normalize(MEAN, STD).spec(UINT8)
    assert spec.dtype == "float32"
    assert spec.low == pytest.approx(-0.485 / 0.229)
    assert spec.high == pytest.approx((1 - 0.406) / 0.225)
    unbounded = Normalize().spec(ImageSpec(8, 8, 1, "float32", -math.inf, math.inf))
    assert (unbounded.low, unbounded.high) == (-math.inf, math.inf)


def test_text_reads_back_and_one_number_is_for_all_channels():
    chain = (Normalize(MEAN, STD),)
    assert stages.parse(stages.text(chain)) == chain
    assert stages.parse("normalize([0.5], 0.25)") == (Normalize((0.5,), (0.25,)),)
    assert hash(Normalize([0.5], 1)) == hash(Normalize((0.5,), (1.0,)))


@pytest.mark.parametrize(
    ("mean", "std", "complaint"),
    [
        ((), (1.0,), "mean is one number for each channel"),
        (("red",), (1.0,), "mean is one number for each channel"),
        ((0.5,), (float("nan"),), "std is one number for each channel"),
        ((0.5,), (0.2, 0.0, 0.2), "std is positive"),
    ],
)
def test_what_is_no_mean_or_spread_is_refused(mean, std, complaint):
    with pytest.raises(UsageError, match=f"normalize: {complaint}"):
        Normalize(mean, std)


def test_as_many_numbers_as_channels_are_asked_for():
    with pytest.raises(UsageError, match="normalize: mean has 2 numbers for images of 3 channels"):
        Normalize((0.5, 0.5)).spec(UINT8)
