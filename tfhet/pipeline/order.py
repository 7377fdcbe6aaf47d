"""The order of the examples in an epoch: a function of (seed, epoch), so that any host can make any batch.

    order = EpochOrder((1000, 500), shuffle=True, seed=1, epoch=3)
    order[64:128]  # the places, in the source, of the second batch of 64

A full shuffle takes no memory per example: a Feistel network (Luby and Rackoff, SIAM J. Comput. 17(2), 1988) permutes
the places, and a result that is out of range is permuted again ("cycle walking": Black and Rogaway, CT-RSA 2002).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tfhet.stages import randomness

TABLE = 1 << 14
"""Up to this number of examples, a permutation is a table: small Feistel networks do not draw all permutations."""
_ROUNDS = 8
_BLOCK = 4096
SPLITS, _EXAMPLES, _WINDOWS = "order of splits", "order of examples", "order of windows"


class EpochOrder:
    """Places of the examples of an epoch, in the order in which they are read."""

    def __init__(
        self,
        split_sizes: Sequence[int],
        *,
        shuffle: int | bool = False,
        shuffle_splits: bool = True,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        """
        Args:
            split_sizes: Number of examples of each split.
            shuffle: True for an order of all examples, N for an order within windows of N examples.
            shuffle_splits: Whether the splits have a new order in each epoch, unless all examples have.
        """
        self._sizes = np.asarray(split_sizes, np.int64)
        self._shuffle, self._seed, self._epoch = shuffle, seed, epoch
        count = len(self._sizes)
        self._splits = np.arange(count)
        if shuffle_splits and shuffle is not True:
            self._splits = permutation(count, key(seed, epoch, SPLITS))
        self._block = functools.lru_cache(maxsize=4)(self._shuffled)
        ends = np.cumsum(self._sizes)
        self._starts = (ends - self._sizes)[self._splits]
        self._ends = np.cumsum(self._sizes[self._splits])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, part: slice) -> np.ndarray:
        """Returns the places of a part of the epoch, int64 [n]: 0 is the first example of the first split."""
        begin, end, step = part.indices(len(self))
        if self._shuffle is True:
            blocks = [self._block(at) for at in range(begin // _BLOCK, -(-end // _BLOCK))]
            first = begin // _BLOCK * _BLOCK
            return np.concatenate([*blocks, self._starts[:0]])[begin - first : max(end - first, 0) : step]
        numbers = np.arange(begin, end, step, dtype=np.int64)
        if self._shuffle:
            numbers = self._within_windows(numbers, int(self._shuffle))
        at = np.searchsorted(self._ends, numbers, side="right")
        return self._starts[at] + numbers - (self._ends - self._sizes[self._splits])[at]

    def _shuffled(self, block: int) -> np.ndarray:
        """Returns the places of a block of a full shuffle: calls for a few numbers cost as much as for many."""
        numbers = np.arange(block * _BLOCK, min((block + 1) * _BLOCK, len(self)), dtype=np.int64)
        return permuted(numbers, len(self), key(self._seed, self._epoch, _EXAMPLES))

    def _within_windows(self, numbers: np.ndarray, window: int) -> np.ndarray:
        found = numbers.copy()
        for at in np.unique(numbers // window).tolist():
            inside = numbers // window == at
            first = at * window
            size = min(window, len(self) - first)
            table = key(self._seed, self._epoch, f"{_WINDOWS} {at}")
            found[inside] = first + permuted(numbers[inside] - first, size, table)
        return found


def key(seed: int, epoch: int, purpose: str) -> int:
    """Returns the number that determines a permutation of an epoch."""
    state = np.array(randomness.salt(seed, purpose, 0), np.uint64)
    return int(randomness.absorb(state, np.array(epoch, np.uint64)))


@functools.lru_cache(maxsize=8)
def permutation(size: int, key: int) -> np.ndarray:
    """Returns the numbers below `size` in an order that `key` determines, int64 [size]."""
    words = randomness.absorb(np.array(key, np.uint64), np.arange(size, dtype=np.uint64))
    order = np.argsort(words, kind="stable")
    order.flags.writeable = False
    return order


def permuted(numbers: np.ndarray, size: int, key: int) -> np.ndarray:
    """Returns where a permutation of the numbers below `size` puts some of them; int64 of the same shape."""
    if size <= TABLE:
        return permutation(size, key)[numbers]
    bits = (size - 1).bit_length()
    keys = randomness.absorb(np.array(key, np.uint64), np.arange(_ROUNDS, dtype=np.uint64))
    found = _feistel(numbers.astype(np.uint64), bits, keys)
    while (outside := np.flatnonzero(found >= size)).size:
        found[outside] = _feistel(found[outside], bits, keys)
    return found.astype(np.int64)


def _feistel(numbers: np.ndarray, bits: int, keys: np.ndarray) -> np.ndarray:
    """Permutes the numbers of so many bits, uint64 [n]."""
    low_bits = np.uint64(bits // 2)
    low_mask, high_mask = (np.uint64((1 << width) - 1) for width in (bits // 2, bits - bits // 2))
    high, low = numbers >> low_bits, numbers & low_mask
    for even, odd in zip(keys[::2], keys[1::2], strict=True):
        high = high ^ (randomness.absorb(even, low) & high_mask)
        low = low ^ (randomness.absorb(odd, high) & low_mask)
    return high << low_bits | low
