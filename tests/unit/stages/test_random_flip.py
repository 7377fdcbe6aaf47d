from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomFlip, randomness

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(8, 6, 3, "uint8", 0.0, 255.0)


def images(dtype: str, count: int = 6) -> tf.Tensor:
    return tf.cast(np.random.default_rng(1).integers(0, 256, (count, 8, 6, 3)), dtype)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_the_chosen_images_are_mirrored_and_no_others(dtype):
    batch = images(dtype)
    across = [True, False, True, False, True, False]
    upright = [True, True, False, False, True, True]
    flipped = RandomFlip(vertical=True).apply(
        batch, {"flip_horizontal": tf.constant(across), "flip_vertical": tf.constant(upright)}
    )
    for index in range(6):
        expected = tf.image.flip_left_right(batch[index]) if across[index] else batch[index]
        expected = tf.image.flip_up_down(expected) if upright[index] else expected
        assert (flipped[index].numpy() == expected.numpy()).all()


@pytest.mark.parametrize(("horizontal", "vertical"), [(True, False), (False, True), (True, True)])
def test_only_allowed_directions_are_drawn_each_for_half_of_the_examples(horizontal, vertical):
    keys = randomness.keys(3, "random_flip", 0, 0, tf.range(20_000, dtype=tf.int64))
    drawn = RandomFlip(horizontal, vertical).parameters(keys, SPEC)
    allowed = {"flip_horizontal": horizontal, "flip_vertical": vertical}
    assert set(drawn) == {name for name, is_allowed in allowed.items() if is_allowed}
    for value in drawn.values():
        assert value.dtype == tf.bool
        assert abs(value.numpy().mean() - 0.5) < 4 * 0.5 / np.sqrt(20_000)
    if len(drawn) == 2:
        both = np.logical_and(*(value.numpy() for value in drawn.values())).mean()
        assert abs(both - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 20_000)


def test_a_flip_in_no_direction_is_refused():
    with pytest.raises(UsageError, match="random_flip: neither horizontal nor vertical"):
        RandomFlip(horizontal=False)
