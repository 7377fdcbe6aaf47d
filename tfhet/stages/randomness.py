"""Random numbers of an example: hashes of (seed, stage, position, epoch, id), never a generator's state.

The mixer is the output function of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
OOPSLA 2014) with the constants of Stafford's variant 13, as in Vigna's public-domain splitmix64.c. Unlike
`tf.random.stateless_*`, which take one seed per call, it gives every row of a batch its own stream in a few vector
operations, so that an example draws the same numbers in any batch and on any host.
"""

from __future__ import annotations

import hashlib

import tensorflow as tf

from tfhet import native
from tfhet.source import GAMMA, mix


def absorb(state: tf.Tensor, word: tf.Tensor) -> tf.Tensor:
    """Returns the state after `word`; both are uint64 and broadcast. Different words of one state never collide."""
    ops = native.ops("randomness") if {state.shape.rank, word.shape.rank} <= {0, 1} else None
    if ops is not None:
        return native.shaped(ops.tfhet_absorb(state, word), tf.broadcast_static_shape(state.shape, word.shape))
    return mix(state + (word + tf.constant(1, tf.uint64)) * tf.constant(GAMMA, tf.uint64))


def as_word(number: int | tf.Tensor) -> tf.Tensor:
    """Returns an int or an int64 tensor as uint64, bit for bit."""
    if isinstance(number, int):
        return tf.constant(number % 2**64, tf.uint64)
    return tf.bitcast(tf.cast(number, tf.int64), tf.uint64)


def keys(seed: int, stage: str, position: int, epoch: int | tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns one key per example, uint64 [batch]. seed: of the run. stage, position: the stage's name and its place in
    the declared chain, so that any two stages draw independently, also two of one name. epoch: an int or an int64
    scalar or [batch]. ids: int64 [batch], example ids."""
    digest = hashlib.blake2b(f"{seed}/{stage}/{position}".encode(), digest_size=8).digest()
    state = tf.constant(int.from_bytes(digest, "little"), tf.uint64)
    return absorb(absorb(state, as_word(epoch)), as_word(ids))


def bits(keys: tf.Tensor, draw: int) -> tf.Tensor:
    """Returns 64 random bits, uint64 [batch], for each key. draw: number of the draw in its stage, from 0."""
    return absorb(keys, as_word(draw))


def uniform(keys: tf.Tensor, draw: int, low: float = 0.0, high: float = 1.0) -> tf.Tensor:
    """Returns float32 [batch] in [low, high) for uint64 [batch]; `high` itself only where float32 rounds up to it."""
    ops = native.ops("randomness") if isinstance(draw, int) else None  # many draws at once are a tensor
    if ops is not None:
        return native.shaped(ops.tfhet_uniform(keys, draw=draw, low=low, span=high - low), keys.shape)
    unit = tf.cast(tf.bitwise.right_shift(bits(keys, draw), tf.constant(40, tf.uint64)), tf.float32) * 2.0**-24
    return low + unit * (high - low)


def below(keys: tf.Tensor, draw: int, end: int) -> tf.Tensor:
    """Returns int32 [batch] for uint64 [batch], uniform from 0 to below `end`."""
    return tf.minimum(tf.cast(uniform(keys, draw, 0.0, float(end)), tf.int32), end - 1)


def bernoulli(keys: tf.Tensor, draw: int, probability: float = 0.5) -> tf.Tensor:
    """Returns bool [batch] for uint64 [batch], True with `probability`."""
    return uniform(keys, draw) < probability
