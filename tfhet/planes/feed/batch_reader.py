"""The protocol of readers, which deliver a rank's share of the batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from tfhet.planes.feed.dataset import DatasetFacts
from tfhet.planes.feed.delivered import Key, Received

MAKE_LIMIT_S = 600.0
"""Default limit in seconds for one batch of the user's code, including all loading before the first one."""


class Position(NamedTuple):
    """What was delivered of an epoch before an iteration begins within it."""

    offset: int = 0
    """Number of examples of a map-style dataset, from the first of the epoch's order on."""
    delivered: frozenset[Key] = frozenset()
    """Batches of an iterable."""


START = Position()


class BatchReader(Protocol):
    """Reads a rank's share of the batches that a user's function returns. See `FeedReader`."""

    left: int
    """Number of batches of all epochs that no rank got, because they fill no round of all ranks."""
    is_short: bool
    """Whether this rank got one batch less than another in the last epoch."""

    shards: int
    """Number of shards of an iterable."""

    @property
    def again(self) -> int | None:
        """Number of batches that servers made a second time; None if the plane does not know it."""

    def epoch(self, epoch: int, position: Position = START, *, continues: bool = True) -> Iterator[Received]:
        """Yields the batches of an epoch from a position on: of a map-style dataset in their order, of an iterable
        those that are ready first."""

    def delivered(self, epoch: int) -> frozenset[Key]:
        """Returns the batches of an unfinished epoch that were delivered."""

    def facts(self, waits: bool = True) -> DatasetFacts | None:
        """Returns the facts of a map-style dataset; without `waits` None if they are not known yet. Raises TypeError if
        the plane does not know them."""

    def close(self) -> None:
        """Ends all connections."""
