from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tfhet.errors import UsageError
from tfhet.stages import Solarize

pytestmark = pytest.mark.usefixtures("backend")

EVERY_LEVEL = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)


def images() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (4, 19, 17, 3)).astype(np.uint8)


@pytest.mark.parametrize("threshold", [0, 1, 100, 128, 255, 256])
def test_images_are_those_of_pillow_bit_for_bit(threshold):
    theirs = np.stack([np.asarray(ImageOps.solarize(Image.fromarray(image), threshold)) for image in images()])
    assert (Solarize(threshold).apply(tf.constant(images()), {}).numpy() == theirs).all()
    as_float = Solarize(threshold).apply(tf.constant(images(), tf.float32) / 255.0, {})
    np.testing.assert_allclose(as_float, theirs / 255.0, atol=1e-6)


@pytest.mark.parametrize("threshold", range(0, 257, 8))
def test_every_level_is_turned_from_the_threshold_up_be_it_uint8_or_float(threshold):
    exact = np.where(threshold <= EVERY_LEVEL, 255 - EVERY_LEVEL, EVERY_LEVEL)
    assert (Solarize(threshold).apply(tf.constant(EVERY_LEVEL), {}).numpy() == exact).all()
    as_float = Solarize(threshold).apply(tf.constant(EVERY_LEVEL / 255, tf.float32), {})
    np.testing.assert_allclose(as_float, exact / 255, atol=1e-6)


@pytest.mark.parametrize("threshold", [-1, 257])
def test_a_threshold_beyond_the_levels_is_refused(threshold):
    with pytest.raises(UsageError, match=f"solarize: threshold is from 0 to 256, not {threshold}"):
        Solarize(threshold)
