"""The fixed affine map against scipy with the matrix that torchvision documents, and against the single stages."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

from tfhet.errors import UsageError
from tfhet.stages import (
    Affine,
    ImageSpec,
    RandomRotation,
    RandomShear,
    RandomTranslation,
    RandomZoom,
    parse,
    projection,
    text,
)

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(20, 28, 3, "uint8", 0.0, 255.0)
SCIPY_MODES = {"reflect": "reflect", "constant": "grid-constant", "nearest": "nearest"}


def images(dtype: str = "float32", height: int = 20, width: int = 28, channels: int = 3) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (3, height, width, channels)), dtype)


def by_scipy(image: np.ndarray, degrees, down, right, scale, shear, fill_mode, fill_value) -> np.ndarray:
    """Output to input: the inverse of moved(turned(sheared(scaled))), in (x, y) with y down, about the centre."""
    height, width, channels = image.shape
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    forward = turn @ np.array([[1.0, -shear], [0.0, 1.0]]) * scale
    centre, move = np.array([width - 1, height - 1]) / 2, np.array([right * width, down * height])
    inverse = np.linalg.inv(forward)
    offset = centre - inverse @ (centre + move)
    matrix = inverse[::-1, ::-1]  # of (y, x)
    planes = [
        ndimage.affine_transform(
            np.float64(image[..., channel]), matrix, offset[::-1], order=1, mode=SCIPY_MODES[fill_mode], cval=fill_value
        )
        for channel in range(channels)
    ]
    return np.stack(planes, axis=-1)


@pytest.mark.parametrize("fill_mode", SCIPY_MODES)
@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (17, 9, 1)])
@pytest.mark.parametrize("values", [(30.0, 0.1, -0.2, 1.3, 0.25), (-135.0, -0.3, 0.0, 0.7, -0.5)])
def test_all_of_it_together_equals_scipy_within_float_rounding(values, height, width, channels, fill_mode):
    batch = images("float32", height, width, channels)
    ours = Affine(*values, fill_mode, 9.0).apply(batch, {}).numpy()
    for index in range(3):
        np.testing.assert_allclose(ours[index], by_scipy(batch[index].numpy(), *values, fill_mode, 9.0), atol=0.05)


@pytest.mark.parametrize(
    ("fixed", "stage", "drawn"),
    [
        (Affine(degrees=36), RandomRotation(), {"angle": math.radians(36)}),
        (Affine(scale=0.8), RandomZoom(), {"zoom": 1 / 0.8}),
        (Affine(shear=-0.3), RandomShear(), {"shear": -0.3}),
        (Affine(down=0.2, right=-0.1), RandomTranslation(), {"down": 0.2, "right": -0.1}),
    ],
    ids=["rotation", "zoom", "shear", "translation"],
)
def test_each_part_alone_is_the_stage_of_that_name(fixed, stage, drawn):
    given = {name: tf.fill([3], tf.constant(value, tf.float32)) for name, value in drawn.items()}
    np.testing.assert_allclose(fixed.apply(images(), {}), stage.apply(images(), given), atol=0.02)


def test_composed_transforms_sample_once_what_whole_moves_and_turns_do_in_turn():
    batch = images("uint8", 16, 16)
    turn = projection.rotation(tf.fill([3], np.float32(np.pi / 2)), 16, 16)
    move = projection.translation(tf.fill([3], 3.0), tf.fill([3], -2.0))
    for first, later in ((turn, move), (move, turn)):
        twice = projection.project(projection.project(batch, first, "constant"), later, "constant")
        once = projection.project(batch, projection.composed(first, later), "constant")
        kept = projection.project(projection.project(tf.ones_like(batch), first, "constant"), later, "constant")
        assert (once.numpy() == twice.numpy())[kept.numpy() == 1].all()
    assert not np.allclose(projection.composed(turn, move), projection.composed(move, turn))


def test_composing_is_associative_and_minds_perspective():
    random = np.random.default_rng(0)
    identity = np.float32([1, 0, 0, 0, 1, 0, 0, 0])
    first, second, third = (tf.constant(identity + random.normal(0, 0.1, (5, 8)), tf.float32) for _ in range(3))
    at_once = projection.composed(first, second, third)
    np.testing.assert_allclose(at_once, projection.composed(projection.composed(first, second), third), atol=1e-6)
    square = [np.append(np.float64(each[0]), 1.0).reshape(3, 3) for each in (first, second, third)]
    product = square[0] @ square[1] @ square[2]
    np.testing.assert_allclose(at_once[0], (product / product[2, 2]).ravel()[:8], atol=1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("fill_mode", projection.FILLS)
@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (17, 9, 1), (1, 1, 3)])
def test_without_arguments_every_image_stays_as_it_is(dtype, fill_mode, height, width, channels):
    batch = images(dtype, height, width, channels)
    assert (Affine(fill_mode=fill_mode).apply(batch, {}).numpy() == batch.numpy()).all()


def test_uint8_images_are_rounded_and_do_not_darken():
    stage = Affine(30, 0.1, -0.2, 1.3, 0.25)
    rounded = stage.apply(images("uint8"), {})
    assert rounded.dtype == tf.uint8
    assert (rounded.numpy() == np.rint(stage.apply(images(), {}))).all()


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: Affine(scale=0), "affine: scale is above 0, not 0.0"),
        (lambda: Affine(degrees=math.inf), "degrees is finite, not inf"),
        (lambda: Affine(down=1.5), "affine: down is from -1 to 1, not 1.5"),
        (lambda: Affine(fill_mode="edge"), "fill_mode of stage affine 'edge'; known: constant, nearest, reflect, wrap"),
        (lambda: Affine(fill_mode="constant", fill_value=300).spec(SPEC), "300 is outside the images' range"),
    ],
)
def test_what_is_out_of_range_is_refused(build, complaint):
    with pytest.raises(UsageError, match=complaint):
        build()


def test_only_a_constant_fill_forbids_a_rescale_to_move_past_and_it_reads_from_text_and_back():
    stages = parse("affine(10, scale=2, fill_mode='constant'); affine(fill_mode='wrap')")
    assert [stage.commutes_with_rescale for stage in stages] == [False, True]
    assert parse(text(stages)) == stages
