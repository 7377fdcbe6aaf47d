from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import OneHot

NUMBERS = tf.TensorSpec([None], tf.int64)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint8])
def test_the_class_gets_all_and_the_others_nothing(dtype):
    rows = OneHot(4).labels(tf.constant([2, 0, 3], dtype), {})
    assert rows.dtype == tf.float32
    np.testing.assert_array_equal(rows, np.eye(4)[[2, 0, 3]])


def test_smoothing_is_that_of_the_keras_loss():
    labels = tf.constant([1, 4], tf.int64)
    given = tf.keras.losses.CategoricalCrossentropy(label_smoothing=0.1, reduction="none")
    probabilities = tf.nn.softmax(tf.random.stateless_normal([2, 5], [1, 2]))
    ours = tf.keras.losses.categorical_crossentropy(OneHot(5, 0.1).labels(labels, {}), probabilities)
    np.testing.assert_allclose(ours, given(tf.one_hot(labels, 5), probabilities), rtol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(OneHot(5, 0.1).labels(labels, {}), axis=1), 1.0, rtol=1e-6)


def test_images_pass_as_they_are_and_labels_get_their_spec():
    images = tf.zeros([2, 3, 3, 1], tf.uint8)
    assert OneHot(3).apply(images, {}) is images
    assert OneHot(3).label_spec(NUMBERS) == tf.TensorSpec([None, 3], tf.float32)
    assert OneHot(3).labels(tf.zeros([0], tf.int64), {}).shape == (0, 3)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_class_is_an_error_when_it_is_met(label):
    data = tf.data.Dataset.from_tensors(tf.constant([0, label], tf.int64)).map(
        lambda labels: OneHot(3).labels(labels, {})
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="a label is not from 0 to 2"):
        list(data)


@pytest.mark.parametrize("spec", [tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([None, 2], tf.int64)])
def test_labels_that_are_no_class_numbers_are_refused(spec):
    with pytest.raises(UsageError, match="one_hot: needs class numbers"):
        OneHot(3).label_spec(spec)


@pytest.mark.parametrize(("classes", "smoothing"), [(1, 0.0), (5, 1.0), (5, -0.1)])
def test_numbers_out_of_range_are_refused(classes, smoothing):
    with pytest.raises(UsageError, match="classes is at least 2, not 1|smoothing is from 0 to below 1, not"):
        OneHot(classes, smoothing)
