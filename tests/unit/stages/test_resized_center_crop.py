"""Against torchvision's two steps: Pillow resizes, numpy cuts."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, ResizedCenterCrop, parse, text

SIZES = [(60, 80), (80, 60), (64, 64), (47, 103), (300, 71), (20, 33)]


def picture(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(0, 256, (rows, columns, 3)).astype(np.uint8)


def torchvision(image: np.ndarray, height: int, width: int, shorter: int) -> np.ndarray:
    rows, columns = image.shape[:2]
    short, long = sorted((rows, columns))
    length = int(shorter * long / short)
    new_rows, new_columns = (shorter, length) if rows <= columns else (length, shorter)
    resized = np.asarray(Image.fromarray(image).resize((new_columns, new_rows), Image.Resampling.BILINEAR))
    top, left = int(round((new_rows - height) / 2.0)), int(round((new_columns - width) / 2.0))
    return resized[top : top + height, left : left + width]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", [(28, 28, 32), (32, 25, 32), (31, 20, 41)])
def test_it_is_resizing_and_cutting_as_torchvision_does_both(size, shape):
    image = picture(*size)
    ours = ResizedCenterCrop(*shape, antialias=True).apply(tf.constant(image[None]), {}).numpy()[0]
    assert ours.shape == (*shape[:2], 3)
    assert np.abs(np.int32(ours) - torchvision(image, *shape)).max() <= 1


@pytest.mark.parametrize("size", SIZES)
def test_without_antialiasing_it_is_a_part_of_what_tensorflow_resizes(size):
    image = picture(*size)
    long = 32 * max(size) // min(size)
    rows, columns = (32, long) if size[0] <= size[1] else (long, 32)
    whole = tf.image.resize(image, [rows, columns]).numpy()
    top, left = round((rows - 28) / 2), round((columns - 28) / 2)
    ours = ResizedCenterCrop(28, 28, 32).apply(tf.constant(image[None]), {}).numpy()[0]
    assert np.abs(ours - whole[top : top + 28, left : left + 28]).max() < 0.53


def test_float_images_stay_so_and_levels_stay_within_theirs():
    image = tf.constant(picture(60, 80)[None], tf.float32)
    made = ResizedCenterCrop(28, 28, 32).apply(image / 255.0, {})
    assert made.dtype == tf.float32 and made.numpy().min() >= 0 and made.numpy().max() <= 1


def test_it_says_its_size_and_reads_from_text_and_back():
    stages = parse("resized_center_crop(); resized_center_crop(160, 128, 182, antialias=True)")
    assert parse(text(stages)) == stages == (ResizedCenterCrop(), ResizedCenterCrop(160, 128, 182, True))
    spec = ImageSpec(60, 80, 3, "uint8", 0.0, 255.0)
    assert stages[1].spec(spec) == ImageSpec(160, 128, 3, "uint8", 0.0, 255.0)


def test_a_crop_larger_than_the_shorter_side_is_refused():
    for sizes in ((225, 224, 224), (224, 300, 256), (0, 5, 9)):
        with pytest.raises(UsageError, match="resized_center_crop: height and width are 1 to shorter"):
            ResizedCenterCrop(*sizes)
