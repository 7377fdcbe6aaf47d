"""The central crop against the Keras layer and plain slicing."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import CenterCrop, ImageSpec, parse, text


def images(dtype: str = "uint8", height: int = 12, width: int = 17, channels: int = 3) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (3, height, width, channels)), dtype)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(12, 17), (11, 16), (5, 4), (1, 1), (12, 3)])
def test_the_middle_is_that_of_the_keras_layer(dtype, channels, size):
    batch = images(dtype, channels=channels)
    ours = CenterCrop(*size).apply(batch, {})
    assert ours.dtype == batch.dtype
    assert (ours.numpy() == tf.keras.layers.CenterCrop(*size)(tf.cast(batch, tf.float32)).numpy()).all()
    assert (ours.numpy() == tf.image.resize_with_crop_or_pad(batch, *size).numpy()).all()


def test_without_arguments_it_is_the_largest_square():
    batch = images()
    assert CenterCrop().spec(ImageSpec(12, 17, 3, "uint8", 0, 255)) == ImageSpec(12, 12, 3, "uint8", 0, 255)
    assert (CenterCrop().apply(batch, {}).numpy() == batch[:, :, 2:14].numpy()).all()
    assert (CenterCrop(width=4).apply(batch, {}).numpy() == batch[:, :, 6:10].numpy()).all()


def test_images_of_a_size_that_is_known_only_when_running_are_cropped():
    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8)])
    def traced(batch):
        return CenterCrop(4, 6).apply(batch, {})

    assert traced.get_concrete_function().output_shapes == [None, 4, 6, 3]
    assert (traced(images()).numpy() == images()[:, 4:8, 5:11].numpy()).all()
    assert CenterCrop(4, 6).spec(ImageSpec(None, None, 3, "uint8", 0, 255)).width == 6


@pytest.mark.parametrize(
    ("stage", "spec", "complaint"),
    [
        (CenterCrop(13, 4), (12, 17), "center_crop: 13 x 4 pixels are more than the 12 x 17 there are: pad before"),
        (CenterCrop(4), (None, 17), "center_crop: the shorter side of the images is not known"),
    ],
)
def test_images_that_do_not_fit_are_refused_before_anything_runs(stage, spec, complaint):
    with pytest.raises(UsageError, match=complaint):
        stage.spec(ImageSpec(*spec, 3, "uint8", 0, 255))


def test_negative_sizes_are_refused_and_it_reads_from_text_and_back():
    with pytest.raises(UsageError, match="center_crop: height is at least 0, not -1"):
        CenterCrop(-1)
    assert parse(text(parse("center_crop(224, 192)"))) == (CenterCrop(224, 192),)
