"""Random numbers of examples: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) with Stafford's variant 13."""

from __future__ import annotations

import hashlib

import numpy as np


def absorb(state: np.ndarray, word: int | np.ndarray) -> np.ndarray:
    """Returns the state after `word`; both are uint64 and broadcast."""
    words = np.atleast_1d(np.asarray(word, np.uint64))
    mixed = np.atleast_1d(state) + (words + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def keys(seed: int, stage: str, position: int, epoch: int | np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Returns one key per example, uint64 [batch]. ids: int64 [batch]. epoch: a number, or int64 [batch]."""
    start = hashlib.blake2b(f"{seed}/{stage}/{position}".encode(), digest_size=8).digest()
    words = (np.asarray(each, np.int64).astype(np.uint64) for each in (epoch, ids))
    state = np.array([int.from_bytes(start, "little")], np.uint64)
    for word in words:
        state = absorb(state, word)
    return state


def uniform(keys: np.ndarray, draw: int | np.ndarray, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Returns float32 [batch] from low to high."""
    unit = (absorb(keys, draw) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    return np.float32(low) + unit * np.float32(high - low)


def below(keys: np.ndarray, draw: int, end: int) -> np.ndarray:
    """Returns int32 [batch] from 0 to below `end`."""
    return np.minimum(uniform(keys, draw, 0.0, float(end)).astype(np.int32), end - 1)


def bernoulli(keys: np.ndarray, draw: int, probability: float = 0.5) -> np.ndarray:
    """Returns bool [batch], True with `probability`."""
    return uniform(keys, draw) < np.float32(probability)
