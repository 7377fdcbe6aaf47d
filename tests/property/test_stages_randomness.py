"""The random draws of an example depend on the example, never on the others of its batch."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from hypothesis import given, settings, strategies as st

from tfhet import stages
from tfhet.stages import ImageSpec, randomness

SPEC = ImageSpec(32, 32, 3, "uint8", 0.0, 255.0)
RANDOM = [stages.RandomFlip(True, True), stages.RandomRotation(), stages.RandomZoom()]
ids = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=24, unique=True)


def drawn(stage, seed: int, epoch: int, numbers: list[int]) -> dict[str, np.ndarray]:
    keys = randomness.keys(seed, stage.name, 2, epoch, tf.constant(numbers, tf.int64))
    return {name: value.numpy() for name, value in stage.parameters(keys, SPEC).items()}


@settings(max_examples=40)
@given(st.sampled_from(RANDOM), st.integers(0, 2**62), st.integers(0, 1000), ids, st.randoms(use_true_random=False))
def test_example_draws_the_same_in_any_batch(stage, seed, epoch, numbers, random):
    whole = drawn(stage, seed, epoch, numbers)
    order = random.sample(range(len(numbers)), random.randint(1, len(numbers)))
    part = drawn(stage, seed, epoch, [numbers[index] for index in order])
    for name, values in whole.items():
        assert (values[order] == part[name]).all()


@settings(max_examples=40)
@given(st.integers(-(2**63), 2**63), st.integers(0, 2**31), ids)
def test_different_ids_have_different_keys(seed, epoch, numbers):
    keys = randomness.keys(seed, "any", 0, epoch, tf.constant(numbers, tf.int64)).numpy()
    assert len(np.unique(keys)) == len(numbers)
