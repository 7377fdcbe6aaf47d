"""Base class of sources whose splits have known sizes and whose examples can be read in any order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfhet.errors import UsageError
from tfhet.source.source import BadRecord, checked_ids, position_of, split_of


class Indexed:
    """Implements the counting methods of `Source` and `IndexedSource`. A subclass has `sizes`, `load` and `places`."""

    def sizes(self) -> np.ndarray:
        """Returns the number of examples of each split, int64 [splits]."""
        raise NotImplementedError

    def split_count(self) -> int:
        return len(self.sizes())

    def example_count(self) -> int:
        return int(self.sizes().sum())

    def split_sizes(self) -> tuple[int, ...]:
        return tuple(self.sizes().tolist())

    @property
    def is_remote(self) -> bool:
        """Whether files are in an object store, so that examples are requested ahead of their use."""
        return False

    def can_load(self) -> bool:
        return True

    def check(self) -> None:
        """Raises UsageError or DataError for data that could not be read later."""
        self.sizes()

    def damages(self) -> tuple[BadRecord, ...]:
        return ()

    def rows(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns the numbers of examples in all splits together, int64 [n]. Raises UsageError for an id that does
        not exist."""
        sizes = self.sizes()
        numbers = checked_ids(ids, len(sizes))
        splits, positions = split_of(numbers), position_of(numbers)
        if (wrong := np.flatnonzero(positions >= sizes[splits])).size:
            split = int(splits[wrong[0]])
            raise UsageError(
                f"example {numbers[wrong[0]]} does not exist: split {split} has {sizes[split]} examples, so it lacks "
                f"position {positions[wrong[0]]}"
            )
        return (np.cumsum(sizes) - sizes)[splits] + positions
