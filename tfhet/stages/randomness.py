"""Random numbers of an example: hashes of (seed, stage, position, epoch, id), never a generator's state.

The mixer is the output function of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
OOPSLA 2014) with the constants of Stafford's variant 13, as in Vigna's public-domain splitmix64.c. Unlike
`tf.random.stateless_*`, which take one seed per call, it gives every row of a batch its own stream in a few vector
operations, so that an example draws the same numbers in any batch and on any host.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfhet.extras import tensorflow as tf
from tfhet.source import GAMMA, mix

if TYPE_CHECKING:
    import tensorflow

    Array: TypeAlias = np.ndarray | tensorflow.Tensor


def absorb(state: Array, word: Array) -> Array:
    """Returns the state after `word`; both are uint64 and broadcast. Different words of one state never collide."""
    if isinstance(state, (np.ndarray, np.uint64)):
        with np.errstate(over="ignore"):
            return np.asarray(mix(state + (word + np.uint64(1)) * np.uint64(GAMMA)))
    state, word = tf.convert_to_tensor(state), tf.convert_to_tensor(word)
    return mix(state + (word + tf.constant(1, tf.uint64)) * tf.constant(GAMMA, tf.uint64))


def as_word(number: int | Array) -> Array:
    """Returns an int or int64 values as uint64, bit for bit."""
    if isinstance(number, np.ndarray):
        return number.astype(np.int64).view(np.uint64)
    if isinstance(number, int):
        return tf.constant(number % 2**64, tf.uint64)
    return tf.bitcast(tf.cast(number, tf.int64), tf.uint64)


def salt(seed: int, stage: str, position: int) -> int:
    """Returns the word with which the keys of a stage begin.

    Args:
        seed: Seed of the run.
        stage, position: The stage's name and its place in the declared chain. Any two stages draw independently, also
            two stages of one name.
    """
    digest = hashlib.blake2b(f"{seed}/{stage}/{position}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def keys(seed: int, stage: str, position: int, epoch: int | Array, ids: Array) -> Array:
    """Returns one key per example, uint64 [batch].

    Args:
        seed, stage, position: See `salt`.
        epoch: An int, or int64 [] or [batch].
        ids: Example ids, int64 [batch], a NumPy array or a tensor, like the result.
    """
    start = salt(seed, stage, position)
    if isinstance(ids, np.ndarray):
        return absorb(absorb(np.array(start, np.uint64), as_word(np.asarray(epoch, np.int64))), as_word(ids))
    return absorb(absorb(tf.constant(start, tf.uint64), as_word(epoch)), as_word(ids))


def bits(keys: Array, draw: int | Array) -> Array:
    """Returns 64 random bits, uint64 [batch], for each key. draw: number of the draw in its stage, from 0."""
    return absorb(keys, np.array(draw, np.uint64) if isinstance(keys, np.ndarray) else as_word(draw))


def uniform(keys: Array, draw: int | Array, low: float = 0.0, high: float = 1.0) -> Array:
    """Returns float32 [batch] in [low, high) for uint64 [batch]; `high` itself only where float32 rounds up to it."""
    if isinstance(keys, np.ndarray):
        unit = (bits(keys, draw) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
        return np.float32(low) + unit * np.float32(high - low)
    unit = tf.cast(tf.bitwise.right_shift(bits(keys, draw), tf.constant(40, tf.uint64)), tf.float32) * 2.0**-24
    return low + unit * (high - low)


def below(keys: Array, draw: int, end: int) -> Array:
    """Returns int32 [batch] for uint64 [batch], uniform from 0 to below `end`."""
    drawn = uniform(keys, draw, 0.0, float(end))
    if isinstance(keys, np.ndarray):
        return np.minimum(drawn.astype(np.int32), end - 1)
    return tf.minimum(tf.cast(drawn, tf.int32), end - 1)


def bernoulli(keys: Array, draw: int, probability: float = 0.5) -> Array:
    """Returns bool [batch] for uint64 [batch], True with `probability`."""
    drawn = uniform(keys, draw)
    return drawn < (np.float32(probability) if isinstance(keys, np.ndarray) else probability)
