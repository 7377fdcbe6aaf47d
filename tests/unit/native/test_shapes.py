"""Shapes of compiled operations: what does not fit is an error that names the input, and nothing in is nothing out."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfhet import native

pytestmark = pytest.mark.skipif(not native.available("tone"), reason="compiled ops cannot be built here")

RGB = tf.zeros([2, 3, 3, 3])
BYTES = tf.zeros([3, 4, 5, 3], tf.uint8)
WHOLE = tf.constant([[1.0]])


def line(ops, images, scale=WHOLE, high=WHOLE):
    return ops.tfhet_line(images, scale, WHOLE, WHOLE, high, result_type=tf.uint8)


def separable(ops, images, weights, padding="REFLECT"):
    return ops.tfhet_separable(images, rows=weights, columns=weights, padding=padding, addend=0.5)


def project(ops, images, transforms, size):
    how = {"fill_mode": "REFLECT", "fill_value": 0.0, "interpolation": "BILINEAR"}
    return ops.tfhet_project(tf.zeros(images), tf.zeros(transforms), size, **how)


def resized(ops, **change):
    whole = {"images": tf.zeros([2, 4, 4, 3]), "windows": tf.constant([[0.0, 0, 4, 4]] * 2)}
    options = {"height": 3, "width": 3, "antialias": False, "confined": True}
    return ops.tfhet_resize_windows(**{**whole, "flips": tf.zeros([2], tf.bool), **options, **change})


@pytest.mark.parametrize(
    ("kernel", "call", "named"),
    [
        ("colour", lambda o: o.tfhet_mix(RGB[..., :1], tf.zeros([0, 3, 3]), tf.zeros([0, 3]), [1.0]), "1 channels"),
        ("colour", lambda o: o.tfhet_mix(RGB, tf.zeros([3, 3, 3]), tf.zeros([3, 3]), []), "matrices has 3"),
        ("colour", lambda o: o.tfhet_mix(RGB, tf.zeros([2, 3, 3]), tf.zeros([1, 3]), []), "offsets"),
        ("colour", lambda o: o.tfhet_mix(RGB, tf.zeros([0, 3, 3]), tf.zeros([0, 3]), [1.0] * 5), "turns has 5"),
        ("colour", lambda o: o.tfhet_saturation(RGB, [1.0]), "factor"),
        ("colour", lambda o: o.tfhet_grey(RGB[0], channels=1), "3 axes, not 4"),
        ("filters", lambda o: separable(o, RGB[:, :2], [0.2] * 5), "at least 3, not 2"),
        ("filters", lambda o: separable(o, RGB[0], [1.0]), "3 axes, not 4"),
        ("filters", lambda o: separable(o, RGB, [1.0], "WRAP"), "padding .* WRAP"),
        ("filters", lambda o: separable(o, RGB, []), "weight"),
        ("filters", lambda o: o.tfhet_sharpen(RGB, [0.1] * 3), "2 images.* not 3"),
        ("morphology", lambda o: o.tfhet_morphology(RGB[0], size=3, largest=True), "3 axes, not 4"),
        ("morphology", lambda o: o.tfhet_morphology(RGB, size=0, largest=True), "size .* not 0"),
        ("noise", lambda o: o.tfhet_noise(RGB, tf.zeros([3], tf.uint64), deviation=1.0), "seed"),
        ("painting", lambda o: o.tfhet_painting(RGB, tf.zeros([2, 3]), value=1.0), "boxes"),
        ("partner", lambda o: o.tfhet_blend(RGB, tf.zeros([3])), "shares"),
        ("partner", lambda o: o.tfhet_blend(RGB, tf.zeros([2, 1])), "shares"),
        ("partner", lambda o: o.tfhet_blend(RGB[0], tf.zeros([3])), "3 axes"),
        ("partner", lambda o: o.tfhet_paste(RGB, tf.zeros([2, 3], tf.int32)), "rectangles"),
        ("partner", lambda o: o.tfhet_paste(RGB, tf.zeros([1, 4], tf.int32)), "rectangles"),
        ("partner", lambda o: o.tfhet_paste(RGB, tf.zeros([4], tf.int32)), "rectangles"),
        ("randomness", lambda o: o.tfhet_absorb(tf.zeros([2], tf.uint64), tf.zeros([3], tf.uint64)), "length"),
        ("resize", lambda o: resized(o, images=tf.zeros([2, 4, 4])), "3 axes, not 4"),
        ("resize", lambda o: resized(o, images=tf.zeros([2, 0, 4, 3])), "images without pixels"),
        ("resize", lambda o: resized(o, windows=tf.zeros([2, 3])), "windows"),
        ("resize", lambda o: resized(o, windows=tf.zeros([3, 4])), "windows"),
        ("resize", lambda o: resized(o, windows=tf.constant([[0.0, 0, 4, 4], [0, 0, 4, 5]])), r"windows\[1\]"),
        ("resize", lambda o: resized(o, windows=tf.fill([2, 4], float("nan"))), r"windows\[0\]"),
        ("resize", lambda o: resized(o, flips=tf.zeros([3], tf.bool)), "flips"),
        ("resize", lambda o: resized(o, height=0), "at least 1"),
        ("sampling", lambda o: project(o, (6, 8, 8), (6, 8), [8, 8]), "3 axes, not 4"),
        ("sampling", lambda o: project(o, (6, 8, 8, 3), (5, 8), [8, 8]), "6 images"),
        ("sampling", lambda o: project(o, (6, 8, 8, 3), (6, 9), [8, 8]), "6 times 9"),
        ("sampling", lambda o: project(o, (6, 8, 8, 3), (8,), [8, 8]), "transforms has 1 axes"),
        ("sampling", lambda o: project(o, (6, 8, 8, 3), (6, 8), [8]), "size"),
        ("sampling", lambda o: project(o, (6, 8, 8, 3), (6, 8), [8, -1]), "size"),
        ("sampling", lambda o: project(o, (6, 0, 8, 3), (6, 8), [8, 8]), "no pixels"),
        ("statistics", lambda o: o.tfhet_statistics(RGB[0]), "3 axes, not 4"),
        ("statistics", lambda o: o.tfhet_equalizer(tf.zeros([3], tf.uint8)), "1 axes, not 4"),
        ("tone", lambda o: line(o, BYTES[0]), "3 axes, not 4"),
        ("tone", lambda o: line(o, BYTES, scale=[[1.0], [2.0]]), r"scale is \[2, 1\]"),
        ("tone", lambda o: line(o, BYTES, high=[1.0]), "high has 1 axes"),
        ("tone", lambda o: o.tfhet_lookup(BYTES, tf.zeros([1, 255, 1])), "1, 255, 1"),
        ("tone", lambda o: o.tfhet_lookup(BYTES, tf.zeros([2, 256, 1])), "2, 256, 1"),
        ("tone", lambda o: o.tfhet_lookup(BYTES, tf.zeros([3, 256, 2])), "3, 256, 2"),
        ("tone", lambda o: o.tfhet_contrast(BYTES, tf.zeros([2])), "factor"),
    ],
)
def test_inputs_that_do_not_fit_are_errors(kernel, call, named):
    with pytest.raises(tf.errors.InvalidArgumentError, match=named):
        call(native.ops(kernel))


@pytest.mark.parametrize("dtype", [tf.uint8, tf.float32])
@pytest.mark.parametrize("shape", [(0, 4, 5, 3), (2, 0, 5, 3)])
def test_empty_images_give_empty_results(shape, dtype):
    images, ops, numbers = tf.zeros(shape, dtype), native.ops, tf.zeros(shape[:1])
    seeds = tf.zeros(shape[:1], tf.uint64)
    for result in (
        ops("colour").tfhet_mix(images, tf.zeros([0, 3, 3]), tf.zeros([0, 3]), numbers),
        ops("colour").tfhet_saturation(images, numbers),
        ops("noise").tfhet_noise(images, seeds, deviation=1.0),
        ops("painting").tfhet_painting(images, tf.zeros([shape[0], 4]), value=0.0),
        ops("tone").tfhet_contrast(images, []),
        ops("tone").tfhet_solarize(images, threshold=3.0),
        line(ops("tone"), images),
        *([ops("tone").tfhet_lookup(images, tf.zeros([1, 256, 1]))] if dtype == tf.uint8 else []),
    ):
        assert result.shape == shape
    assert ops("colour").tfhet_grey(images, channels=1).shape == (*shape[:3], 1)
    assert ops("statistics").tfhet_statistics(images)[0].shape == (shape[0], 3)
    assert ops("statistics").tfhet_statistics(tf.zeros([2, 3, 3, 0], dtype))[0].shape == (2, 0)


def test_empty_batches_give_empty_results():
    none = tf.zeros([0, 8, 8, 3])
    assert native.ops("morphology").tfhet_morphology(none, size=3, largest=True).shape == (0, 8, 8, 3)
    assert native.ops("filters").tfhet_sharpen(none, [0.5]).shape == (0, 8, 8, 3)
    assert separable(native.ops("filters"), none, [1.0]).shape == (0, 8, 8, 3)
    assert project(native.ops("sampling"), (0, 8, 8, 3), (0, 8), [8, 8]).shape == (0, 8, 8, 3)
    assert project(native.ops("sampling"), (6, 8, 8, 3), (1, 8), [0, 4]).shape == (6, 0, 4, 3)
    one_row = tf.cast(tf.reshape(tf.range(120), [1, 1, 40, 3]), tf.uint8)
    assert (native.ops("filters").tfhet_sharpen(one_row, [0.5]).numpy() == one_row.numpy()).all()


def test_pasted_rectangles_are_clipped_and_blends_stay_finite():
    ops = native.ops("partner")
    wild = tf.constant([[-9, 99, -9, 99], [3, 1, 0, 4], [2**31 - 1, 2**31 - 1, -(2**31), 2**31 - 1]])
    pasted = ops.tfhet_paste(tf.reshape(tf.range(3, dtype=tf.float32), [3, 1, 1, 1]) + tf.zeros([3, 4, 4, 1]), wild)
    assert pasted[:, 0, 0, 0].numpy().tolist() == [1, 1, 2]
    assert tf.math.is_finite(ops.tfhet_blend(tf.ones([1, 2, 2, 1]), tf.constant([float("nan")]))).numpy().all()
