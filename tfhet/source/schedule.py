"""Turns of groups of examples with weights, as a function of the number of the turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfhet.errors import UsageError

BLOCK = 4096
"""Number of turns in which shares are exact to one turn; more if there are more groups."""


class Schedule:
    """The turns of groups of examples: each group has its share of every block of turns, evenly spread."""

    def __init__(self, weights: Sequence[float] | np.ndarray, sizes: np.ndarray) -> None:
        """weights: [groups]. sizes: int64 [groups]. Raises UsageError for a group without examples."""
        if (empty := np.flatnonzero(sizes < 1)).size:
            raise UsageError(f"source {empty[0]} of {len(sizes)} has no examples, so it cannot be mixed with others")
        counts = np.maximum(1, np.rint(np.asarray(weights) / np.sum(weights) * BLOCK)).astype(np.int64)
        self._counts, self._sizes = counts // np.gcd.reduce(counts), sizes
        groups = np.repeat(np.arange(len(sizes)), self._counts)
        firsts = np.cumsum(self._counts) - self._counts
        ranks = np.arange(len(groups)) - firsts[groups]
        order = np.lexsort((groups, (ranks + 0.5) / self._counts[groups]))
        self._groups, self._ranks = groups[order], ranks[order]
        blocks, last = np.divmod(sizes - 1, self._counts)
        self.length = int((blocks * len(groups) + np.argsort(order)[firsts + last]).max()) + 1
        """Number of turns after which each example of each group had one."""

    def __call__(self, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the group of each turn, and the example of the group, from 0; all int64 [n]."""
        blocks, places = np.divmod(turns, len(self._groups))
        groups = self._groups[places]
        return groups, (blocks * self._counts[groups] + self._ranks[places]) % self._sizes[groups]
