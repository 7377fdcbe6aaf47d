from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet import native
from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, Mixup, mixup, randomness

SPEC = ImageSpec(6, 5, 3, "uint8", 0.0, 255.0)


def images(count: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, (count, 6, 5, 3)).astype(np.uint8)


def keys(count: int) -> tf.Tensor:
    return randomness.keys(7, "mixup", 0, 0, tf.range(count, dtype=tf.int64))


def test_images_and_labels_are_blends_with_those_of_the_next_example(backend):
    batch, stage = images(7), Mixup(1.0)
    drawn = stage.parameters(keys(7), SPEC)
    share = np.float64(drawn["share"])
    blend = share[:, None, None, None]
    expected = (1 - blend) * batch + blend * np.roll(batch, -1, axis=0)
    floats = stage.apply(tf.constant(np.float32(batch / 255)), drawn)
    assert floats.dtype == tf.float32
    np.testing.assert_allclose(floats, expected / 255, atol=1e-6)
    levels = stage.apply(tf.constant(batch), drawn)
    assert levels.dtype == tf.uint8
    assert np.abs(levels.numpy() - expected).max() <= 0.5 + 1e-3
    labels = np.eye(5, dtype=np.float32)[[0, 1, 2, 3, 4, 0, 0]]
    mixed = stage.labels(tf.constant(labels), drawn)
    np.testing.assert_allclose(
        mixed, (1 - share)[:, None] * labels + share[:, None] * np.roll(labels, -1, axis=0), atol=1e-6
    )
    np.testing.assert_allclose(np.sum(mixed, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_batch_of_one_stays_as_it_is_and_so_does_an_empty_one(backend, dtype):
    for count in (1, 0):
        batch = tf.cast(images(count), dtype)
        drawn = Mixup().parameters(keys(count), SPEC)
        np.testing.assert_array_equal(Mixup().apply(batch, drawn), batch)
        labels = tf.constant(np.eye(3)[:count], tf.float32)
        np.testing.assert_array_equal(Mixup().labels(labels, drawn), labels)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5, 0.99, 1.0, 1.5, 8.0, 1000.0, 1e6])
def test_shares_have_the_distribution_beta(alpha):
    values = mixup.quantiles(alpha)
    expected = (np.arange(len(values)) + 0.5) / len(values)
    assert (np.diff(values) >= 0).all() and values[0] >= 0 and values[-1] <= 1
    at = tf.constant(alpha, tf.float64)
    inner = values < 0.5  # the upper half is the lower one mirrored; near 1 float64 cannot tell values apart
    np.testing.assert_allclose(values[::-1], 1 - values, atol=1e-12)
    np.testing.assert_allclose(tf.math.betainc(at, at, tf.constant(values))[inner], expected[inner], atol=2e-5)
    np.testing.assert_allclose(values.var(), 0.25 / (2 * alpha + 1), rtol=2e-3)
    drawn = Mixup(alpha).parameters(keys(20_000), SPEC)["share"].numpy()
    assert abs(drawn.mean() - 0.5) < 4 * values.std() / np.sqrt(20_000)
    assert abs(drawn.var() / values.var() - 1) < 0.05


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("shape", [(5, 7, 9, 3), (2, 1, 1, 1), (3, 33, 17, 4)])
def test_the_compiled_blend_is_the_plain_one_bit_for_bit(plainly, shape, dtype):
    batch = tf.cast(np.random.default_rng(1).uniform(0, 256, shape), dtype)
    shares = tf.constant(np.random.default_rng(2).uniform(0, 1, shape[0]), tf.float32)
    drawn = {"share": shares}
    np.testing.assert_array_equal(Mixup().apply(batch, drawn), plainly(Mixup().apply, batch, drawn))


@pytest.mark.skipif(not native.available("partner"), reason="compiled ops cannot be built here")
def test_shapes_that_do_not_fit_are_errors_of_the_compiled_ops():
    batch, ops = tf.zeros([3, 4, 4, 1], tf.uint8), native.ops("partner")
    for shares in (tf.zeros([2]), tf.zeros([3, 1])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="shares"):
            ops.tfhet_blend(batch, shares)
    for rectangles in (tf.zeros([3, 3], tf.int32), tf.zeros([2, 4], tf.int32), tf.zeros([4], tf.int32)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="rectangles"):
            ops.tfhet_paste(batch, rectangles)
    with pytest.raises(tf.errors.InvalidArgumentError, match="images has 3 axes"):
        ops.tfhet_blend(batch[0], tf.zeros([4]))
    # What lies beyond the image is nothing, and neither is a rectangle that is inside out.
    wild = tf.constant([[-9, 99, -9, 99], [3, 1, 0, 4], [2**31 - 1, 2**31 - 1, -(2**31), 2**31 - 1]])
    pasted = ops.tfhet_paste(tf.reshape(tf.range(3, dtype=tf.float32), [3, 1, 1, 1]) + tf.zeros([3, 4, 4, 1]), wild)
    np.testing.assert_array_equal(pasted[:, 0, 0, 0], [1, 1, 2])
    assert np.isfinite(ops.tfhet_blend(tf.ones([1, 2, 2, 1]), tf.constant([float("nan")]))).all()


def test_what_is_drawn_depends_on_the_example_alone():
    whole = Mixup().parameters(keys(50), SPEC)["share"].numpy()
    np.testing.assert_array_equal(Mixup().parameters(keys(50)[13:19], SPEC)["share"], whole[13:19])


def test_class_numbers_are_refused_with_what_to_do():
    with pytest.raises(UsageError, match=r"mixup: cannot mix labels of int64: put one_hot\(classes\) before"):
        Mixup().label_spec(tf.TensorSpec([None], tf.int64))
    spec = tf.TensorSpec([None, 3], tf.float32)
    assert Mixup().label_spec(spec) == spec


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_an_alpha_that_is_not_positive_is_refused(alpha):
    with pytest.raises(UsageError, match=f"mixup: alpha is (above 0|finite), not {alpha}"):
        Mixup(alpha)
