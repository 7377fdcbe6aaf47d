"""Resizing against tf.image.resize, Pillow and numpy written here."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, Resize, parse, text
from tfhet.stages.resize import METHODS

SIZES = [(20, 28, 10, 14), (17, 9, 31, 12), (8, 8, 3, 21), (1, 5, 4, 1)]


def images(dtype: str, height: int, width: int, channels: int = 3) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (3, height, width, channels)), dtype)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("channels", [1, 3])
def test_resizing_equals_tensorflow_and_uint8_is_its_result_rounded(method, sizes, channels):
    height, width, rows, columns = sizes
    batch = images("float32", height, width, channels)
    theirs = tf.image.resize(batch, [rows, columns], method).numpy()
    ours = Resize(rows, columns, method).apply(batch, {})
    assert ours.dtype == tf.float32
    # A compiled resize takes columns before rows, TensorFlow the other way round.
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)
    whole = Resize(rows, columns, method).apply(tf.cast(batch, tf.uint8), {})
    assert whole.dtype == tf.uint8
    near = np.abs(theirs - np.floor(theirs) - 0.5) < 1e-3  # where either neighbour is right
    assert ((whole.numpy() == np.clip(np.rint(theirs), 0, 255)) | near).all()


def bilinear(image: np.ndarray, rows: int, columns: int) -> np.ndarray:
    for axis, wanted in ((0, rows), (1, columns)):
        there = image.shape[axis]
        at = np.clip((np.arange(wanted) + 0.5) * there / wanted - 0.5, 0, there - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(3)])
        high = np.minimum(low + 1, there - 1)
        image = np.take(image, low, axis) * (1 - share) + np.take(image, high, axis) * share
    return image


@pytest.mark.parametrize("sizes", SIZES)
def test_bilinear_samples_between_the_centres_of_pixels(sizes):
    height, width, rows, columns = sizes
    batch = images("float32", height, width)
    ours = Resize(rows, columns).apply(batch, {})
    for index in range(3):
        np.testing.assert_allclose(ours[index], bilinear(np.float64(batch[index]), rows, columns), atol=1e-3)


def test_area_is_the_mean_of_whole_blocks():
    batch = images("uint8", 12, 20)
    ours = Resize(3, 4, "area").apply(batch, {}).numpy()
    means = np.float64(batch).reshape(3, 3, 4, 4, 5, 3).mean(axis=(2, 4))
    assert np.abs(ours - means).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("method", ["bicubic", "bilinear", "nearest"])
def test_enlarged_images_are_those_of_pillow(method):
    image = pytest.importorskip("PIL.Image")
    batch = images("float32", 9, 14, channels=1)
    ours = Resize(23, 32, method).apply(batch, {}).numpy()  # no new pixel's centre lies between two old ones
    for index in range(3):
        plane = image.fromarray(batch[index, ..., 0].numpy())
        theirs = np.asarray(plane.resize((32, 23), image.Resampling[method.upper()]))
        # TensorFlow looks up the weights of a cubic in a table of 1024 places.
        np.testing.assert_allclose(ours[index, ..., 0], theirs, atol=0.3 if method == "bicubic" else 1e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_the_size_that_the_images_have_leaves_them_as_they_are(method, dtype):
    batch = images(dtype, 13, 8)
    ours = Resize(13, 8, method).apply(batch, {})
    assert ours.dtype == batch.dtype
    assert (ours.numpy() == batch.numpy()).all()


def test_the_result_has_the_size_asked_for_and_bicubic_may_overshoot_the_range_of_floats_by_what_it_says():
    spec = ImageSpec(None, None, 3, "float32", -1.0, 1.0)
    assert Resize(5, 7).spec(spec) == ImageSpec(5, 7, 3, "float32", -1.0, 1.0)
    wider = Resize(5, 7, "bicubic").spec(spec)
    assert (wider.low, wider.high) == (-1.5625, 1.5625)
    assert Resize(5, 7, "bicubic").spec(ImageSpec(4, 4, 3, "uint8", 0, 255)).high == 255
    checks = np.indices((1, 4, 4, 1)).sum(axis=0) % 2 * 2.0 - 1.0
    for pattern in (checks, np.roll(np.repeat(np.repeat(checks, 2, 1), 2, 2), 1, 1)):
        for rows in (7, 8, 24, 64):
            out = Resize(rows, rows, "bicubic").apply(tf.constant(pattern, tf.float32), {}).numpy()
            assert wider.low - 1e-5 <= out.min() and out.max() <= wider.high + 1e-5
    unbounded = Resize(5, 7, "bicubic").spec(ImageSpec(4, 4, 3, "float32", -math.inf, math.inf))
    assert (unbounded.low, unbounded.high) == (-math.inf, math.inf)


def test_images_of_a_size_that_is_known_only_when_running_are_resized():
    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8)])
    def traced(batch):
        return Resize(6, 5).apply(batch, {})

    assert traced.get_concrete_function().output_shapes == [None, 6, 5, 3]
    assert (traced(images("uint8", 9, 7)).numpy() == Resize(6, 5).apply(images("uint8", 9, 7), {}).numpy()).all()


def test_what_is_out_of_range_is_refused():
    with pytest.raises(UsageError, match="resize: height is at least 1, not 0"):
        Resize(0)
    with pytest.raises(UsageError, match="method of stage resize 'cubic'; known: area, bicubic, bilinear, nearest"):
        Resize(method="cubic")


def test_only_bicubic_forbids_a_rescale_to_move_past_and_it_reads_from_text_and_back():
    stages = parse("resize(32, 32, 'area'); resize(method='bicubic')")
    assert [stage.commutes_with_rescale for stage in stages] == [True, False]
    assert parse(text(stages)) == stages
