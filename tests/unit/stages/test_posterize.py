from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tfhet.errors import UsageError
from tfhet.stages import Posterize

pytestmark = pytest.mark.usefixtures("backend")


def images() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (4, 19, 17, 3)).astype(np.uint8)


@pytest.mark.parametrize("bits", [1, 2, 4, 7, 8])
def test_images_are_those_of_pillow_bit_for_bit(bits):
    theirs = np.stack([np.asarray(ImageOps.posterize(Image.fromarray(image), bits)) for image in images()])
    assert (Posterize(bits).apply(tf.constant(images()), {}).numpy() == theirs).all()
    as_float = Posterize(bits).apply(tf.constant(images(), tf.float32) / 255.0, {})
    np.testing.assert_allclose(as_float, theirs / 255.0, atol=1e-6)


def test_images_of_one_channel_are_those_of_pillow():
    grey = images()[..., :1]
    theirs = np.stack([np.asarray(ImageOps.posterize(Image.fromarray(image[..., 0]), 3)) for image in grey])
    assert (Posterize(3).apply(tf.constant(grey), {}).numpy()[..., 0] == theirs).all()


@pytest.mark.parametrize("bits", [0, 9])
def test_a_number_of_bits_that_no_level_has_is_refused(bits):
    with pytest.raises(UsageError, match=f"posterize: bits is from 1 to 8, not {bits}"):
        Posterize(bits)
