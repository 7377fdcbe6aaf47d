"""The mixer of SplitMix64, on arrays and on tensors: see `tfhet.stages.randomness`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfhet.extras import tensorflow as tf

GAMMA = 0x9E3779B97F4A7C15
"""2**64 / golden ratio, odd: SplitMix64's increment."""
_STEPS = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)
_LAST_SHIFT = 31


def mix(words: Any) -> Any:
    """Mixes uint64 of any shape, an array or a tensor: a bijection in which each flipped bit flips about half of the
    result's bits."""
    if isinstance(words, (np.ndarray, np.uint64)):
        with np.errstate(over="ignore"):
            for bits, factor in _STEPS:
                words = (words ^ (words >> np.uint64(bits))) * np.uint64(factor)
            return words ^ (words >> np.uint64(_LAST_SHIFT))
    for bits, factor in _STEPS:
        shifted = tf.bitwise.right_shift(words, tf.constant(bits, tf.uint64))
        words = tf.bitwise.bitwise_xor(words, shifted) * tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, tf.constant(_LAST_SHIFT, tf.uint64)))
