from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfhet.stages import randomness

IDS = np.concatenate([np.arange(20_000, dtype=np.int64), (np.arange(1, 20_001, dtype=np.int64) << 32) + 7])


def keys(seed=0, stage="a", position=0, epoch=0, ids=IDS) -> tf.Tensor:
    return randomness.keys(seed, stage, position, epoch, tf.constant(ids))


def test_the_mixer_gives_the_published_outputs_of_splitmix64():
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


def test_a_key_is_the_documented_hash_of_seed_stage_position_epoch_and_id():
    import hashlib

    def mixed(word: int) -> int:
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
        return word ^ word >> 31

    def absorbed(state: int, word: int) -> int:
        return mixed((state + (word + 1) * 0x9E3779B97F4A7C15) % 2**64)

    start = int.from_bytes(hashlib.blake2b(b"42/dilate/3", digest_size=8).digest(), "little")
    ids = [0, 1, 5 << 32 | 17, 2**63 - 1]
    expected = [absorbed(absorbed(start, 9), number) for number in ids]
    assert keys(42, "dilate", 3, 9, np.array(ids)).numpy().tolist() == expected
    assert randomness.bits(keys(42, "dilate", 3, 9, np.array(ids)), 1).numpy().tolist() == [
        absorbed(key, 1) for key in expected
    ]


def test_an_epoch_may_be_a_number_a_tensor_or_one_for_each_example():
    expected = keys(epoch=3).numpy()
    assert (keys(epoch=tf.constant(3, tf.int64)).numpy() == expected).all()
    assert (keys(epoch=tf.fill([len(IDS)], tf.constant(3, tf.int64))).numpy() == expected).all()


def test_keys_are_equal_in_graph_mode_under_a_symbolic_batch_and_epoch():
    @tf.function(input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)])
    def traced(epoch, ids):
        return randomness.uniform(randomness.keys(1, "a", 2, epoch, ids), 0)

    assert (traced(5, IDS).numpy() == randomness.uniform(keys(1, "a", 2, 5), 0).numpy()).all()


@pytest.mark.parametrize("change", [{"seed": 1}, {"stage": "b"}, {"position": 1}, {"epoch": 1}, {"ids": IDS + 1}])
def test_seed_stage_position_epoch_and_id_each_change_every_key_and_leave_no_correlation(change):
    before, after = keys(), keys(**change)
    assert not (before.numpy() == after.numpy()).any()
    correlation = np.corrcoef(randomness.uniform(before, 0), randomness.uniform(after, 0))[0, 1]
    assert abs(correlation) < 4 / np.sqrt(len(IDS))


def test_the_position_is_not_confused_with_the_name_or_the_seed():
    assert not (keys(seed=1, stage="a", position=11).numpy() == keys(seed=1, stage="a1", position=1).numpy()).any()
    assert not (keys(seed=11, position=1).numpy() == keys(seed=1, position=11).numpy()).any()


def test_no_two_examples_share_a_key():
    assert len(np.unique(keys().numpy())) == len(IDS)


def test_uniform_numbers_fill_their_range_evenly():
    drawn = randomness.uniform(keys(), 0, -2.0, 6.0).numpy()
    assert drawn.dtype == np.float32
    assert -2.0 <= drawn.min() < -1.99 and 5.99 < drawn.max() < 6.0
    assert stats.kstest(drawn, stats.uniform(-2, 8).cdf).pvalue > 0.01


def test_neighbouring_ids_and_successive_draws_are_independent():
    drawn = np.stack([randomness.uniform(keys(), draw).numpy() for draw in range(2)])
    cells = np.histogram2d(drawn[0], drawn[1], bins=16)[0]
    assert stats.chisquare(cells.ravel()).pvalue > 0.01
    neighbours = np.histogram2d(drawn[0][:-1], drawn[0][1:], bins=16)[0]
    assert stats.chisquare(neighbours.ravel()).pvalue > 0.01


def test_every_bit_of_a_draw_is_set_half_of_the_time():
    words = randomness.bits(keys(), 0).numpy()
    share = np.unpackbits(words.view(np.uint8).reshape(len(words), 8), axis=1).mean(axis=0)
    assert (np.abs(share - 0.5) < 4.5 * 0.5 / np.sqrt(len(words))).all()


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_bernoulli_is_true_with_its_probability(probability):
    share = randomness.bernoulli(keys(), 0, probability).numpy().mean()
    assert abs(share - probability) <= 4 * np.sqrt(probability * (1 - probability) / len(IDS))
