"""Every row is the fixed affine map of what was drawn for it; the draws by distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import Affine, ImageSpec, RandomAffine, parse, randomness, text

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(20, 28, 3, "uint8", 0.0, 255.0)


def images(dtype: str = "float32", height: int = 20, width: int = 28, channels: int = 3) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (5, height, width, channels)), dtype)


def draws(stage: RandomAffine, count: int = 5) -> dict[str, tf.Tensor]:
    return stage.parameters(randomness.keys(3, stage.name, 0, 0, tf.range(count, dtype=tf.int64)), SPEC)


@pytest.mark.parametrize("fill_mode", ["constant", "reflect"])
@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (17, 9, 1)])
def test_each_image_gets_the_fixed_map_of_its_own_draws(fill_mode, height, width, channels):
    stage = RandomAffine(40, 0.3, 0.2, 0.5, 1.5, 0.4, fill_mode, 9.0)
    batch, drawn = images("float32", height, width, channels), draws(stage)
    ours = stage.apply(batch, drawn).numpy()
    for index in range(5):
        angle, down, right, scale, shear = (
            float(drawn[name][index]) for name in ("angle", "down", "right", "scale", "shear")
        )
        fixed = Affine(math.degrees(angle), down, right, scale, shear, fill_mode, 9.0)
        np.testing.assert_allclose(ours[index], fixed.apply(batch[index : index + 1], {})[0], atol=0.02)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_ranges_of_nothing_leave_every_image_as_it_is(dtype):
    stage = RandomAffine(0, 0, 0, 1, 1, 0)
    assert (stage.apply(images(dtype), draws(stage)).numpy() == images(dtype).numpy()).all()


def test_uint8_images_are_rounded_and_do_not_darken():
    stage = RandomAffine()
    rounded = stage.apply(images("uint8"), draws(stage))
    assert rounded.dtype == tf.uint8
    assert (rounded.numpy() == np.rint(stage.apply(images(), draws(stage)))).all()


def test_all_five_values_are_drawn_evenly_and_independently():
    from scipy import stats

    drawn = draws(RandomAffine(20, 0.1, 0.2, 0.5, 1.25, 0.3), 20_000)
    turn = math.radians(20)
    ranges = {"angle": (-turn, turn), "down": (-0.1, 0.1), "right": (-0.2, 0.2), "scale": (0.5, 1.25)}
    ranges["shear"] = (-0.3, 0.3)
    assert set(drawn) == set(ranges)
    for name, (low, high) in ranges.items():
        assert stats.kstest(drawn[name].numpy(), stats.uniform(low, high - low).cdf).pvalue > 0.01
    correlation = np.corrcoef(np.stack([drawn[name] for name in ranges])) - np.eye(5)
    assert np.abs(correlation).max() < 4 / np.sqrt(20_000)


def test_an_example_draws_the_same_in_every_batch():
    stage = RandomAffine()
    together, ids = draws(stage, 50), tf.constant([17], tf.int64)
    alone = stage.parameters(randomness.keys(3, stage.name, 0, 0, ids), SPEC)
    assert all(alone[name].numpy()[0] == together[name].numpy()[17] for name in alone)


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: RandomAffine(degrees=-1), "random_affine: degrees is from 0 to 360, not -1.0"),
        (lambda: RandomAffine(width_factor=2), "width_factor is from 0 to 1, not 2.0"),
        (lambda: RandomAffine(scale_low=1.2), "scale_low is at most scale_high, not 1.2, 1.1"),
        (lambda: RandomAffine(fill_mode="edge"), "fill_mode of stage random_affine 'edge'"),
        (lambda: RandomAffine(fill_mode="constant", fill_value=-2).spec(SPEC), "-2 is outside the images' range"),
    ],
)
def test_what_is_out_of_range_is_refused(build, complaint):
    with pytest.raises(UsageError, match=complaint):
        build()


def test_only_a_constant_fill_forbids_a_rescale_to_move_past_and_it_reads_from_text_and_back():
    stages = parse("random_affine(30, shear=0, fill_mode='constant'); random_affine()")
    assert [stage.commutes_with_rescale for stage in stages] == [False, True]
    assert parse(text(stages)) == stages
