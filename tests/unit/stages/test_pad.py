"""Padding against numpy.pad and tf.image."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, Pad, parse, text
from tfhet.stages.crop import MODES

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(6, 9, 3, "uint8", 0.0, 255.0)


def images(dtype: str = "uint8", channels: int = 3) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (3, 6, 9, channels)), dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("border", [(2, 3, 4, 1), (0, 0, 0, 5), (13, 8, 20, 9)])
def test_every_mode_is_that_of_numpy_also_beyond_the_size_of_the_image(mode, dtype, channels, border):
    top, bottom, left, right = border
    batch = images(dtype, channels)
    ours = Pad(top, bottom, left, right, mode=mode, value=7).apply(batch, {})
    constant = {"constant_values": 7} if mode == "constant" else {}
    expected = np.pad(batch.numpy(), [(0, 0), (top, bottom), (left, right), (0, 0)], mode, **constant)
    assert ours.dtype == batch.dtype
    assert ours.shape == expected.shape
    assert (ours.numpy() == expected).all()


@pytest.mark.parametrize("size", [(6, 9), (7, 10), (11, 9), (12, 14)])
def test_padding_to_a_size_is_that_of_tensorflow(size):
    ours = Pad(height=size[0], width=size[1]).apply(images(), {})
    assert (ours.numpy() == tf.image.resize_with_crop_or_pad(images(), *size).numpy()).all()


def test_one_axis_may_be_padded_to_a_size_and_the_other_by_pixels():
    stage = Pad(left=1, right=2, height=9)
    assert stage.spec(SPEC) == ImageSpec(9, 12, 3, "uint8", 0.0, 255.0)
    assert stage.apply(images(), {}).shape == (3, 9, 12, 3)


@pytest.mark.parametrize("mode", MODES)
def test_without_a_border_every_image_stays_as_it_is(mode):
    assert (Pad(mode=mode).apply(images(), {}).numpy() == images().numpy()).all()


def test_images_of_a_size_that_is_known_only_when_running_get_a_constant_border():
    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8)])
    def traced(batch):
        return Pad(1, 2, 3, 4, value=255).apply(batch, {})

    assert (traced(images()).numpy() == Pad(1, 2, 3, 4, value=255).apply(images(), {}).numpy()).all()
    assert Pad(1, 2).spec(ImageSpec(None, 9, 3, "uint8", 0, 255)) == ImageSpec(None, 9, 3, "uint8", 0, 255)


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: Pad(top=-1), "pad: top is at least 0, not -1"),
        (lambda: Pad(top=1, height=8), "pad: give either the size of the result or the border"),
        (lambda: Pad(mode="wrap"), "mode of stage pad 'wrap'; known: constant, edge, reflect, symmetric"),
        (lambda: Pad(value=256).spec(SPEC), "pad: value 256 is outside the images' range, 0 to 255"),
        (lambda: Pad(value=0.5).spec(SPEC), "pad: value 0.5 is not a whole number"),
        (lambda: Pad(height=5).spec(SPEC), "pad: images with 6 rows cannot be padded to 5: crop them before"),
        (
            lambda: Pad(left=1, mode="edge").spec(ImageSpec(6, None, 3, "uint8", 0, 255)),
            "pad: how many columns the images have must be known",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build, complaint):
    with pytest.raises(UsageError, match=complaint):
        build()


def test_only_a_constant_border_forbids_a_rescale_to_move_past_and_it_reads_from_text_and_back():
    stages = parse("pad(4, 4, 4, 4, mode='reflect'); pad(height=32, width=32)")
    assert [stage.commutes_with_rescale for stage in stages] == [True, False]
    assert parse(text(stages)) == stages
