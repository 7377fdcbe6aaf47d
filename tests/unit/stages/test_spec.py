from __future__ import annotations

import math

import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec


def test_a_uint8_image_spec_from_a_source_has_the_range_of_a_byte():
    spec = ImageSpec.of(tf.TensorSpec([None, 32, 24, 3], tf.uint8))
    assert spec == ImageSpec(32, 24, 3, "uint8", 0.0, 255.0)


def test_a_float_image_spec_claims_no_range():
    tensor = tf.TensorSpec([None, 32, 32, 1], tf.float32)
    assert (ImageSpec.of(tensor).low, ImageSpec.of(tensor).high) == (-math.inf, math.inf)


def test_a_spec_goes_to_a_tensor_spec_and_back():
    spec = ImageSpec(None, 8, 3, "uint8", 0.0, 255.0)
    assert ImageSpec.of(spec.tensor) == spec


def test_the_bytes_of_an_example_count_its_dtype_and_are_unknown_without_a_size():
    assert ImageSpec(32, 32, 3, "uint8", 0, 255).example_bytes == 3072
    assert ImageSpec(32, 32, 3, "float32", 0, 1).example_bytes == 4 * 3072
    assert ImageSpec(None, 32, 3, "uint8", 0, 255).example_bytes is None


@pytest.mark.parametrize("shape", [[None], [None, 32, 32], [None, 32, 32, None]])
def test_what_is_no_batch_of_images_is_refused(shape):
    with pytest.raises(UsageError, match="batch of images"):
        ImageSpec.of(tf.TensorSpec(shape, tf.uint8))


def test_a_dtype_that_stages_do_not_know_is_refused_with_the_ones_they_do():
    with pytest.raises(UsageError, match="uint8, float32 or encoded, not float64"):
        ImageSpec.of(tf.TensorSpec([None, 8, 8, 3], tf.float64))
