from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, levels, randomness

pytestmark = pytest.mark.usefixtures("backend")

NEEDING_THE_FULL_RANGE = (
    "random_brightness",
    "random_contrast",
    "random_saturation",
    "random_hue",
    "color_jitter",
    "posterize",
    "solarize",
    "equalize",
    "autocontrast",
    "invert",
    "gamma",
    "gaussian_noise",
    "sharpen",
)


OTHERS = ("grayscale", "erode", "normalize", "cast", "random_erasing", "cutout")


@pytest.mark.parametrize("name", NEEDING_THE_FULL_RANGE)
def test_a_stage_that_works_with_levels_refuses_images_of_another_range_and_says_what_to_do(name):
    stage = stages.get(name)()
    for spec in (
        ImageSpec(8, 8, 3, "float32", -1.0, 1.0),
        ImageSpec(8, 8, 3, "float32", 0.0, 255.0),
        ImageSpec(8, 8, 3, "float32", -math.inf, math.inf),
        ImageSpec(8, 8, 3, "uint8", 0.0, 16.0),
    ):
        with pytest.raises(UsageError, match=f"stage {name}: needs {spec.dtype} images from 0 to .*: put it before"):
            stage.spec(spec)


def test_images_that_were_rescaled_to_0_to_1_are_taken():
    spec = stages.Rescale().spec(ImageSpec(8, 8, 3, "uint8", 0.0, 255.0))
    assert stages.Invert().spec(spec) == spec


@pytest.mark.parametrize("name", [*NEEDING_THE_FULL_RANGE, *OTHERS])
def test_images_whose_size_is_known_only_when_they_come_are_taken(name):
    stage, spec = stages.get(name)(), ImageSpec(None, None, 3, "uint8", 0.0, 255.0)
    ids = tf.range(3, dtype=tf.int64)

    @tf.function(input_signature=[spec.tensor])
    def traced(images):
        return stage.apply(images, stage.parameters(randomness.keys(0, name, 0, 0, ids), spec))

    assert traced.get_concrete_function().output_shapes.is_compatible_with(stage.spec(spec).tensor.shape)
    batch = tf.constant(np.random.default_rng(1).integers(0, 256, (3, 13, 7, 3)), tf.uint8)
    known = stage.apply(batch, stage.parameters(randomness.keys(0, name, 0, 0, ids), stage.spec(spec)))
    assert np.abs(np.float32(traced(batch)) - np.float32(known)).max() <= 1e-5


@pytest.mark.parametrize("name", ["random_saturation", "random_hue", "color_jitter", "grayscale"])
def test_a_stage_about_colour_refuses_what_is_neither_grey_nor_rgb(name):
    with pytest.raises(UsageError, match=f"stage {name}: needs images of 1 or 3 channels, not 4"):
        stages.get(name)().spec(ImageSpec(8, 8, 4, "uint8", 0.0, 255.0))


def test_values_are_rounded_to_the_nearest_level_and_clipped():
    values = tf.constant([-300.0, -0.6, -0.2, 0.4, 0.6, 127.49, 127.51, 254.6, 255.4, 300.0])
    assert levels.restored(values, tf.uint8).numpy().tolist() == [0, 0, 0, 0, 1, 127, 128, 255, 255, 255]
    assert levels.restored(tf.constant([-0.1, 0.3, 1.2]), tf.float32).numpy().tolist() == [0.0, np.float32(0.3), 1.0]


@pytest.mark.parametrize("channels", [1, 3])
def test_statistics_keep_images_and_channels_apart(channels, backend):
    batch = np.random.default_rng(1).random((5, 7, 4, channels)).astype(np.float32)
    found = levels.Statistics.of(tf.constant(batch))
    for ours, exact in ((found.mean, np.mean), (found.low, np.min), (found.high, np.max)):
        np.testing.assert_allclose(ours, exact(batch, axis=(1, 2)), atol=1e-6)


def test_all_levels_survive_the_way_to_float_and_back():
    every = tf.cast(tf.reshape(tf.range(256), [1, 16, 16, 1]), tf.uint8)
    assert (levels.in_levels(levels.as_given(every, tf.float32)).numpy() == every.numpy()).all()


def test_the_shares_of_the_colours_in_grey_sum_to_one():
    assert sum(levels.LUMA) == 65536.0
