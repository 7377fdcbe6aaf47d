from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfhet import stages
from tfhet.stages import ImageSpec, RandAugment, TrivialAugment, randomness
from tfhet.stages.policy import BINS, OPERATIONS, strengths

SPEC = ImageSpec(40, 50, 3, "uint8", 0.0, 255.0)


def keys(count: int) -> tf.Tensor:
    return randomness.keys(7, "trivialaugment", 0, 0, tf.range(count, dtype=tf.int64))


def images(count: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(0).integers(0, 256, (count, 40, 50, 3)).astype(np.uint8))


def test_operations_and_strengths_are_uniform_and_independent():
    drawn = TrivialAugment().parameters(keys(60_000), SPEC)
    operation, strength = drawn["operation"].numpy()[:, 0], drawn["strength"].numpy()[:, 0]
    assert np.abs(np.bincount(operation, minlength=14) - 60_000 / 14).max() < 4 * np.sqrt(60_000 / 14)
    table = strengths(**TrivialAugment.largest)
    for at, name in enumerate(OPERATIONS):
        own = strength[operation == at]
        values, counts = np.unique(np.abs(own), return_counts=True)
        np.testing.assert_array_equal(values, np.unique(table[at]))
        if len(values) == BINS:
            assert np.abs(counts - len(own) / BINS).max() < 5 * np.sqrt(len(own) / BINS), name
            if 1 <= at <= 9:
                assert abs((own < 0).mean() - 0.5 * (1 - 1 / BINS)) < 0.04, name


def test_strengths_are_those_of_torchvisions_wide_ranges():
    table = dict(zip(OPERATIONS, strengths(**TrivialAugment.largest), strict=True))
    np.testing.assert_allclose(table["shear_y"], np.linspace(0, 0.99, BINS), atol=1e-6)
    np.testing.assert_allclose(table["translate_x"], np.linspace(0, 32, BINS), atol=1e-5)
    np.testing.assert_allclose(table["rotate"], np.linspace(0, 135, BINS), atol=1e-4)
    np.testing.assert_allclose(table["color"], np.linspace(0, 0.99, BINS), atol=1e-6)
    np.testing.assert_array_equal(table["posterize"], 8 - np.round(np.arange(BINS) / ((BINS - 1) / 6)))


def test_translations_are_in_pixels():
    batch = images(2)
    drawn = {"operation": np.int32([[3], [4]]), "strength": np.float32([[7], [-5]])}
    ours = TrivialAugment().apply(batch, drawn).numpy()
    assert (ours[0, :, 7:] == batch.numpy()[0, :, :-7]).all() and (ours[0, :, :7] == 0).all()
    assert (ours[1, :-5] == batch.numpy()[1, 5:]).all() and (ours[1, -5:] == 0).all()


def test_each_image_meets_the_operation_that_randaugment_knows_by_the_same_number():
    batch = images(60)
    drawn = TrivialAugment().parameters(keys(60), SPEC)
    ours = TrivialAugment().apply(batch, drawn).numpy()
    moved = np.isin(drawn["operation"].numpy()[:, 0], [OPERATIONS.index(n) for n in ("translate_x", "translate_y")])
    theirs = RandAugment(1).apply(batch, drawn).numpy()
    assert (ours[~moved] == theirs[~moved]).all()
    assert moved.any() and (~moved).any()


def test_text_reads_back():
    assert stages.parse("trivialaugment()") == (TrivialAugment(),)
    assert stages.text((TrivialAugment(9),)) == "trivialaugment(fill_value=9.0)"
