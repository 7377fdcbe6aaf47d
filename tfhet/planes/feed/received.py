"""Deliveries of a feed to its reader: a batch, or the error that the user's code raised in place of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from tfhet.errors import DataError
from tfhet.planes.feed.taken import Key
from tfhet.schema import MessageError


class SourceError(DataError):
    """The user's code raised on a host that serves; the text holds its traceback."""


class Received(NamedTuple):
    """One batch, as it came."""

    batch: Any
    """Arrays are views of memory that is used again once nothing refers to them."""
    ids: np.ndarray | None
    """int64 [batch]: numbers of its examples in a map-style dataset; None for others."""
    examples: int | None
    """Number of examples in a whole epoch of a map-style dataset; None for others."""
    key: Key
    server: int

    @classmethod
    def of(cls, value: Any, examples: int | None, key: Key, server: int) -> Received:
        """value: what a server sends, the batch with its ids. Raises MessageError for anything else."""
        if not (isinstance(value, dict) and value.keys() == {"batch", "ids"}):
            raise MessageError("a batch without its tree")
        return cls(value["batch"], value["ids"], examples, key, server)


class BatchReader(Protocol):
    """A rank's share of the batches that a function of the user's gives; `FeedReader` says more."""

    left: int

    @property
    def again(self) -> int | None:
        """Number of batches that were made again; None where that is not known."""

    def epoch(self, epoch: int, taken: Iterable[Key] = (), *, goes_on: bool = True) -> Iterator[Received]:
        """The batches of an epoch but those in `taken`."""

    def taken(self, epoch: int) -> frozenset[Key]:
        """The batches that were delivered of an epoch."""

    def batches(self) -> int:
        """Number of batches in an epoch. Raises TypeError where that is not known."""

    def close(self) -> None:
        """Ends it."""
