"""Stages that cut, pad and resize against numpy, tf.image, Pillow and torchvision's loop, which is written here."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from stage_images import draws, float32, keys, noise, one, uint8

from tfhet.stages import Pad, RandomCrop, RandomResizedCrop, Resize, ResizedCenterCrop, randomness
from tfhet.stages.crop import MODES
from tfhet.stages.resize import METHODS


def padded(batch: tf.Tensor, rows: tuple[int, int], columns: tuple[int, int], mode: str) -> np.ndarray:
    value = {"constant_values": 7} if mode == "constant" else {}
    return np.pad(batch.numpy(), [(0, 0), rows, columns, (0, 0)], mode, **value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("border", [(2, 3, 4, 1), (0, 0, 0, 5), (13, 8, 20, 9)])
def test_padding_equals_numpy_also_beyond_the_size(mode, channels, border):
    top, bottom, left, right = border
    for dtype in ("uint8", "float32"):
        batch = noise(dtype, 6, 9, channels, 3)
        ours = Pad(top, bottom, left, right, mode=mode, value=7).apply(batch, {})
        assert ours.dtype == batch.dtype
        np.testing.assert_array_equal(ours, padded(batch, (top, bottom), (left, right), mode))


@pytest.mark.parametrize("size", [(12, 17), (11, 16), (5, 4), (1, 1), (12, 3)])
def test_center_crop_and_pad_equal_tf_image(size):
    for batch in (noise(height=12, width=17), noise("float32", 12, 17, 1)):
        wanted = tf.image.resize_with_crop_or_pad(batch, *size)
        np.testing.assert_array_equal(one(f"center_crop{size}").apply(batch, {}), wanted)
    small, larger = noise(height=12, width=17), (size[0] + 12, size[1] + 17)
    wanted = tf.image.resize_with_crop_or_pad(small, *larger)
    np.testing.assert_array_equal(Pad(height=larger[0], width=larger[1]).apply(small, {}), wanted)


def test_center_crop_without_size_is_largest_square():
    batch = noise(height=12, width=17)
    np.testing.assert_array_equal(one("center_crop()").apply(batch, {}), batch[:, :, 2:14])
    np.testing.assert_array_equal(one("center_crop(width=4)").apply(batch, {}), batch[:, :, 6:10])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("height", "width", "padding", "channels"),
    [(10, 13, 4, 3), (0, 0, 3, 1), (7, 4, 0, 3), (1, 1, 1, 1), (14, 5, 2, 3)],
)
def test_random_window_is_slice_of_padded_image(mode, height, width, padding, channels):
    stage, spec = RandomCrop(height, width, padding, mode, 7), uint8(10, 13)
    cut, drawn = stage.spec(spec), {name: values.numpy() for name, values in draws(stage, 40, spec).items()}
    for name, room in (("top", 10 - cut.height), ("left", 13 - cut.width)):
        assert drawn[name].min() >= 0 and drawn[name].max() <= room + 2 * padding
        drawn[name][:2] = 0, room + 2 * padding  # the corners
    for dtype in ("uint8", "float32"):
        batch = noise(dtype, 10, 13, channels, 40)
        ours, around = stage.apply(batch, drawn), (padding, padding)
        assert ours.dtype == batch.dtype
        for image, found, top, left in zip(padded(batch, around, around, mode), ours, *drawn.values(), strict=True):
            np.testing.assert_array_equal(found, image[top : top + cut.height, left : left + cut.width])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [(20, 28, 10, 14), (17, 9, 31, 12), (8, 8, 3, 21), (1, 5, 4, 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_resizing_equals_tf_image_and_uint8_is_rounded(method, sizes, channels):
    height, width, rows, columns = sizes
    batch = noise("float32", height, width, channels, 3)
    theirs = tf.image.resize(batch, [rows, columns], method).numpy()
    # A compiled resize takes columns before rows, TensorFlow the other way round.
    np.testing.assert_allclose(Resize(rows, columns, method).apply(batch, {}), theirs, rtol=1e-5, atol=1e-4)
    whole = Resize(rows, columns, method).apply(tf.cast(batch, tf.uint8), {})
    assert whole.dtype == tf.uint8
    near = np.abs(theirs - np.floor(theirs) - 0.5) < 1e-3  # either neighbour is right
    assert ((whole.numpy() == np.clip(np.rint(theirs), 0, 255)) | near).all()


def test_bicubic_overshoots_within_its_spec():
    wider = Resize(5, 7, "bicubic").spec(float32(-1.0, 1.0))
    checks = np.indices((1, 4, 4, 1)).sum(axis=0) % 2 * 2.0 - 1.0
    for pattern in (checks, np.roll(np.repeat(np.repeat(checks, 2, 1), 2, 2), 1, 1)):
        for rows in (7, 8, 24, 64):
            out = Resize(rows, rows, "bicubic").apply(tf.constant(pattern, tf.float32), {}).numpy()
            assert wider.low - 1e-5 <= out.min() and out.max() <= wider.high + 1e-5


def torchvision_box(height: int, width: int, scale, ratio, random) -> tuple[int, int, int, int]:
    """RandomResizedCrop.get_params; `random` gives numbers of [0, 1) for: area, ratio (each try), top, left."""
    for attempt in range(10):
        area = height * width * (scale[0] + random(attempt) * (scale[1] - scale[0]))
        low, high = math.log(ratio[0]), math.log(ratio[1])
        aspect = math.exp(low + random(10 + attempt) * (high - low))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(random(20) * (height - h + 1)), int(random(21) * (width - w + 1)), h, w
    w, h = width, height
    if width / height < min(ratio):
        h = round(w / min(ratio))
    elif width / height > max(ratio):
        w = round(h * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize("shape", [(32, 32), (20, 45), (61, 12)])
@pytest.mark.parametrize("ranges", [(0.08, 1.0, 3 / 4, 4 / 3), (0.6, 1.0, 0.5, 2.0), (1.0, 1.0, 3 / 4, 4 / 3)])
def test_random_boxes_equal_the_loop_of_torchvision(shape, ranges):
    stage, count = RandomResizedCrop(8, 8, *ranges), 400
    numbers = np.stack([np.float64(randomness.uniform(keys(stage, count), at)) for at in range(22)])
    ours = draws(stage, count, uint8(*shape))["box"].numpy()
    theirs = [torchvision_box(*shape, ranges[:2], ranges[2:], numbers[:, at].__getitem__) for at in range(count)]
    assert (ours == np.array(theirs)).all(axis=1).mean() > 0.995  # float32 may round a side or a place otherwise
    assert (ours[:, :2] >= 0).all() and (ours[:, 2:] >= 1).all() and (ours[:, :2] + ours[:, 2:] <= shape).all()


@pytest.mark.parametrize("size", [(16, 16), (7, 31), (1, 1)])
@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (17, 9, 1)])
def test_random_parts_are_cut_and_then_resized(size, height, width, channels):
    stage, batch = RandomResizedCrop(*size), noise("float32", height, width, channels)
    drawn = draws(stage, 6, uint8(height, width))
    ours = stage.apply(batch, drawn)
    for image, found, (top, left, rows, columns) in zip(batch, ours, drawn["box"].numpy(), strict=True):
        part = image[top : top + rows, left : left + columns]
        np.testing.assert_allclose(found, tf.image.resize(part, size), atol=0.01)


def torchvision_center(image: np.ndarray, height: int, width: int, shorter: int) -> np.ndarray:
    """Resize(shorter) by Pillow, then CenterCrop((height, width))."""
    rows, columns = image.shape[:2]
    length = int(shorter * max(rows, columns) / min(rows, columns))
    new_rows, new_columns = (shorter, length) if rows <= columns else (length, shorter)
    resized = np.asarray(Image.fromarray(image).resize((new_columns, new_rows), Image.Resampling.BILINEAR))
    top, left = int(round((new_rows - height) / 2.0)), int(round((new_columns - width) / 2.0))
    return resized[top : top + height, left : left + width]


@pytest.mark.parametrize("size", [(60, 80), (80, 60), (64, 64), (47, 103), (300, 71), (20, 33)])
def test_resized_center_crop_equals_torchvision_and_tensorflow(size):
    image = np.random.default_rng(size[0]).integers(0, 256, (*size, 3)).astype(np.uint8)
    for shape in ((28, 28, 32), (32, 25, 32), (31, 20, 41)):
        ours = ResizedCenterCrop(*shape, antialias=True).apply(tf.constant(image[None]), {}).numpy()[0]
        assert np.abs(np.int32(ours) - torchvision_center(image, *shape)).max() <= 1
    long = 32 * max(size) // min(size)
    rows, columns = (32, long) if size[0] <= size[1] else (long, 32)
    top, left = round((rows - 28) / 2), round((columns - 28) / 2)
    whole = tf.image.resize(image, [rows, columns])[top : top + 28, left : left + 28]
    ours = ResizedCenterCrop(28, 28, 32).apply(tf.constant(image[None]), {})[0]
    assert np.abs(np.float32(ours) - whole).max() < 0.53
