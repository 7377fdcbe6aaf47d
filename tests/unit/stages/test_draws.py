"""Random numbers: the documented hash of (seed, stage, position, epoch, id), and what stages draw with it."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from stage_images import draws, keys as keys_of, one, uint8

from tfhet.stages import RandomRotation, RandomZoom, randomness

IDS = np.concatenate([np.arange(20_000, dtype=np.int64), (np.arange(1, 20_001, dtype=np.int64) << 32) + 7])
TURN = 2 * np.pi


def keys(seed=0, stage="a", position=0, epoch=0, ids=IDS) -> tf.Tensor:
    return randomness.keys(seed, stage, position, epoch, tf.constant(ids))


def test_mixer_gives_the_published_splitmix64_outputs():
    # Seed 1234567: the sequence printed by the reference implementation, as on rosettacode.org (Splitmix64).
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    drawn = randomness.absorb(tf.constant(1234567, tf.uint64), tf.constant([0, 1, 2, 3, 4], tf.uint64))
    assert drawn.numpy().tolist() == published


def test_key_is_the_documented_hash():
    def mixed(word: int) -> int:
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
        return word ^ word >> 31

    def absorbed(state: int, word: int) -> int:
        return mixed((state + (word + 1) * 0x9E3779B97F4A7C15) % 2**64)

    start = int.from_bytes(hashlib.blake2b(b"42/dilate/3", digest_size=8).digest(), "little")
    ids = [0, 1, 5 << 32 | 17, 2**63 - 1]
    expected = [absorbed(absorbed(start, 9), number) for number in ids]
    found = keys(42, "dilate", 3, 9, np.array(ids))
    assert found.numpy().tolist() == expected
    assert randomness.bits(found, 1).numpy().tolist() == [absorbed(key, 1) for key in expected]


@pytest.mark.parametrize("epoch", [7, np.arange(-5, len(IDS) - 5)], ids=["one epoch", "epochs"])
def test_arrays_draw_as_tensors_do(epoch):
    ours, theirs = randomness.keys(3, "a", 2, epoch, -IDS), keys(3, "a", 2, tf.constant(epoch, tf.int64), -IDS)
    np.testing.assert_array_equal(ours, theirs, strict=True)
    for draw in (
        lambda keys: randomness.bits(keys, 5),
        lambda keys: randomness.uniform(keys, 1, -0.3, 0.7),
        lambda keys: randomness.below(keys, 2, 7),
        lambda keys: randomness.bernoulli(keys, 3, 0.3),
    ):
        np.testing.assert_array_equal(draw(ours), draw(theirs), strict=True)


def test_epoch_may_be_a_tensor_or_a_graph_input():
    @tf.function(input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)])
    def traced(epoch, ids):
        return randomness.keys(0, "a", 0, epoch, ids)

    expected = keys(epoch=3).numpy()
    for found in (
        keys(epoch=tf.constant(3, tf.int64)),
        keys(epoch=tf.fill([len(IDS)], tf.constant(3, tf.int64))),
        traced(3, IDS),
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("change", [{"seed": 1}, {"stage": "b"}, {"position": 1}, {"epoch": 1}, {"ids": IDS + 1}])
def test_each_part_changes_every_key(change):
    before, after = keys(), keys(**change)
    assert not (before.numpy() == after.numpy()).any()
    correlation = np.corrcoef(randomness.uniform(before, 0), randomness.uniform(after, 0))[0, 1]
    assert abs(correlation) < 4 / np.sqrt(len(IDS))


def test_position_is_separate_from_name_and_seed():
    assert not (keys(seed=1, stage="a", position=11).numpy() == keys(seed=1, stage="a1", position=1).numpy()).any()
    assert not (keys(seed=11, position=1).numpy() == keys(seed=1, position=11).numpy()).any()


def test_keys_are_unique_and_every_bit_even():
    assert len(np.unique(keys().numpy())) == len(IDS)
    words = randomness.bits(keys(), 0).numpy()
    share = np.unpackbits(words.view(np.uint8).reshape(len(words), 8), axis=1).mean(axis=0)
    assert (np.abs(share - 0.5) < 4.5 * 0.5 / np.sqrt(len(words))).all()


def test_neighbouring_ids_and_successive_draws_are_independent():
    drawn = np.stack([randomness.uniform(keys(), draw).numpy() for draw in range(2)])
    assert drawn.dtype == np.float32
    for first, second in (drawn, (drawn[0][:-1], drawn[0][1:])):
        cells = np.histogram2d(first, second, bins=16)[0]
        assert stats.chisquare(cells.ravel()).pvalue > 0.01


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_bernoulli_is_true_with_its_probability(probability):
    share = randomness.bernoulli(keys(), 0, probability).numpy().mean()
    assert abs(share - probability) <= 4 * np.sqrt(probability * (1 - probability) / len(IDS))


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("random_rotation(0.1)", {"angle": (-0.1 * TURN, 0.1 * TURN)}),
        ("random_zoom(0.3)", {"zoom": (0.7, 1.3)}),
        ("random_shear(0.3)", {"shear": (-0.3, 0.3)}),
        ("random_translation(0.2, 0.5)", {"down": (-0.2, 0.2), "right": (-0.5, 0.5)}),
        (
            "random_affine(20, 0.1, 0.2, 0.5, 1.25, 0.3)",
            {
                "angle": (-TURN / 18, TURN / 18),
                "down": (-0.1, 0.1),
                "right": (-0.2, 0.2),
                "scale": (0.5, 1.25),
                "shear": (-0.3, 0.3),
            },
        ),
        ("random_brightness(0.3)", {"brightness": (-0.3, 0.3)}),
        ("random_contrast(0.2, 1.8)", {"contrast": (0.2, 1.8)}),
        ("random_saturation(0.2, 1.8)", {"saturation": (0.2, 1.8)}),
        ("random_hue(0.25)", {"hue": (-0.25, 0.25)}),
        (
            "color_jitter(0.4, 0.3, 1.5, 0.1)",
            {"brightness": (0.6, 1.4), "contrast": (0.7, 1.3), "saturation": (0.0, 2.5), "hue": (-0.1, 0.1)},
        ),
        ("color_jitter(0.0, 0.2, 0.0, 0.1)", {"contrast": (0.8, 1.2), "hue": (-0.1, 0.1)}),
        ("cutout()", {"centre_y": (0, 1), "centre_x": (0, 1)}),
        (
            "random_erasing(0.3, (0.1, 0.2), (0.5, 2.0))",
            {"erase": 0.3, "area": (0.1, 0.2), "ratio": (-np.log(2), np.log(2)), "top": (0, 1), "left": (0, 1)},
        ),
        ("random_flip()", {"flip_horizontal": 0.5}),
        ("random_flip(False, True)", {"flip_vertical": 0.5}),
        ("random_flip(True, True)", {"flip_horizontal": 0.5, "flip_vertical": 0.5}),
        ("random_crop(8, 0, 1)", {"top": range(20 + 2 - 8 + 1), "left": range(3)}),
    ],
)
def test_draws_are_uniform_and_independent(text, ranges):
    """The range of a name: (low, high) of numbers, the probability of True, or the values of integers."""
    drawn = {name: value.numpy() for name, value in draws(one(text), 20_000).items()}
    assert set(drawn) == set(ranges)
    if "ratio" in drawn:
        drawn["ratio"] = np.log(drawn["ratio"])
    for name, expected in ranges.items():
        values = drawn[name]
        if isinstance(expected, float):
            assert values.dtype == bool
            assert abs(values.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 20_000)
        elif isinstance(expected, range):
            assert values.dtype == np.int32
            assert stats.chisquare(np.bincount(values, minlength=len(expected))).pvalue > 0.01
        else:
            low, high = expected
            assert low - 1e-6 <= values.min() and values.max() <= high + 1e-6
            assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 0.01
    correlations = np.atleast_2d(np.corrcoef(list(drawn.values()))) - np.eye(len(drawn))
    assert np.abs(correlations).max() < 4 / np.sqrt(20_000)


def test_stages_at_other_positions_draw_independently():
    ids = tf.range(1000, dtype=tf.int64)
    angles = [
        RandomRotation().parameters(randomness.keys(0, "random_rotation", position, 0, ids), uint8())["angle"]
        for position in (0, 1)
    ]
    zoom = draws(RandomZoom(), 1000)["zoom"]
    assert not (angles[0].numpy() == angles[1].numpy()).any()
    assert np.abs(np.corrcoef([*angles, zoom]) - np.eye(3)).max() < 4 / np.sqrt(1000)


@pytest.mark.parametrize(
    "text",
    ["random_resized_crop()", "randaugment()", "trivialaugment()", "mixup()", "cutmix()", "gaussian_noise()"]
    + ["one_of(random_hue(), probability(random_flip()))", "random_crop(padding=4)", "random_erasing()"],
)
def test_example_draws_the_same_in_every_batch(text):
    stage = one(text)
    together, some = draws(stage, 50), [17, 40, 3]
    alone = stage.parameters(tf.gather(keys_of(stage, 50), some), uint8())
    assert set(alone) == set(together)
    for name, values in alone.items():
        np.testing.assert_array_equal(values, tf.gather(together[name], some))
