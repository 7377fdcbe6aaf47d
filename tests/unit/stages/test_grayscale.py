from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfhet.errors import UsageError
from tfhet.stages import Grayscale, ImageSpec

pytestmark = pytest.mark.usefixtures("backend")


def images() -> np.ndarray:
    batch = np.random.default_rng(1).integers(0, 256, (6, 19, 17, 3)).astype(np.uint8)
    batch[0] = batch[0, :, :, :1]  # greys
    batch[1, 0] = 255
    return batch


@pytest.mark.parametrize("channels", [1, 3])
def test_uint8_images_are_those_of_pillow_bit_for_bit(channels):
    ours = Grayscale(channels).apply(tf.constant(images()), {}).numpy()
    theirs = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in images()])
    assert ours.dtype == np.uint8
    assert (ours == theirs[..., np.newaxis]).all()
    assert ours.shape[-1] == channels


@pytest.mark.parametrize("channels", [1, 3])
def test_float_images_are_those_of_tf_image_but_for_its_missing_ten_thousandth(channels):
    batch = tf.constant(images(), tf.float32) / 255.0
    ours = Grayscale(channels).apply(batch, {})
    np.testing.assert_allclose(ours, np.repeat(tf.image.rgb_to_grayscale(batch), channels, axis=-1), atol=2e-4)
    np.testing.assert_allclose(ours[..., 0], np.float64(batch) @ [0.299, 0.587, 0.114], atol=1e-5)


def test_grey_images_stay_as_they_are_and_get_as_many_channels_as_asked_for():
    batch = tf.constant(images()[..., :1])
    assert (Grayscale(1).apply(batch, {}).numpy() == batch.numpy()).all()
    assert (Grayscale(3).apply(batch, {}).numpy() == np.repeat(batch, 3, axis=-1)).all()


def test_every_grey_keeps_its_level():
    greys = tf.tile(tf.cast(tf.range(256), tf.uint8)[tf.newaxis, :, tf.newaxis, tf.newaxis], [1, 1, 1, 3])
    assert (Grayscale(3).apply(greys, {}).numpy() == greys.numpy()).all()


def test_the_spec_has_the_channels_that_come_out():
    assert Grayscale(1).spec(ImageSpec(8, 8, 3, "float32", -1.0, 1.0)) == ImageSpec(8, 8, 1, "float32", -1.0, 1.0)
    assert Grayscale(3).spec(ImageSpec(8, 8, 1, "uint8", 0.0, 255.0)).channels == 3


def test_two_channels_are_refused():
    with pytest.raises(UsageError, match="unknown channels of stage grayscale 2; known: 1, 3"):
        Grayscale(2)
