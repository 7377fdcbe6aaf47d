from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tfhet.stages import Invert

pytestmark = pytest.mark.usefixtures("backend")


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_those_of_pillow(channels):
    batch = np.random.default_rng(1).integers(0, 256, (4, 19, 17, channels)).astype(np.uint8)
    theirs = np.stack([np.asarray(ImageOps.invert(Image.fromarray(image.squeeze()))) for image in batch])
    theirs = theirs.reshape(batch.shape)
    assert (Invert().apply(tf.constant(batch), {}).numpy() == theirs).all()
    as_float = Invert().apply(tf.constant(batch, tf.float32) / 255.0, {})
    np.testing.assert_allclose(as_float, theirs / 255.0, atol=1e-6)
