"""A run of the user's iterable over a shard, with the batches that are held for other ranks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.shard_use import ShardUse
from tfhet.planes.feed.source import Randomness


@dataclass(eq=False)
class Stream:
    """A run of the user's iterable over a shard."""

    random: Randomness
    iterator: Iterator[Any]
    use: ShardUse
    made: int = 0
    end: int | None = None
    """Number of batches, once the iterable has ended."""
    held: dict[int, Any] = field(default_factory=dict)
    """Batches that were made before a requested one, by number, ascending."""
    most_held: int = 0
    is_fresh: bool = False
    """Whether each batch has memory of its own."""
    is_whole: bool = False
    """Whether it has the batches of all shards."""
    readers: set[int] = field(default_factory=set)
    """Ranks that have requested batches; others may read this shard from another process."""

    def is_far_ahead(self, request: BatchRequest) -> bool:
        """Whether the limit of batches is held for other ranks that read."""
        others = self.readers - {request.rank}
        return sum(number % request.ranks in others for number in self.held) >= self.most_held

    def on_request(self, request: BatchRequest) -> None:
        """Notes that a rank reads, and drops the batches that it does not need any more."""
        self.most_held = max(self.most_held, request.most_held)
        if not request.is_rest:
            self.readers.add(request.rank)
            for number in [one for one in self.held if one < request.first and one % request.ranks == request.rank]:
                del self.held[number]

    def hold(self, batch: Any, request: BatchRequest) -> None:
        """Holds the next batch unless the requesting rank has it; drops the oldest of too many that no rank reads."""
        if not (self.made % request.ranks == request.rank and self.made < request.first):
            self.held[self.made] = batch
        self.made += 1
        unclaimed = [number for number in self.held if number % request.ranks not in self.readers]
        if len(unclaimed) > self.most_held:
            del self.held[unclaimed[0]]

    def close(self) -> None:
        close = getattr(self.iterator, "close", None)
        if close is not None:
            with contextlib.suppress(Exception):  # the user's clean-up
                close()


_PLAIN = {type(None), bool, int, float, str, bytes}


def owned(made: list[Any]) -> Any:
    """Returns the only entry of a list, a batch that the user's code cannot change any more, although it may use a
    buffer again. Arrays are copied unless their memory cannot change, or nothing but `made` refers to them."""
    return _owned(made, 0, is_alone=True)


def _owned(container: Any, key: Any, is_alone: bool) -> Any:
    """is_alone: whether nothing else refers to the container."""
    value = container[key]
    if type(value) in _PLAIN:
        return value
    is_alone = is_alone and sys.getrefcount(value) == _ALONE
    if isinstance(value, Mapping):
        return {one: _owned(value, one, is_alone and type(value) is dict) for one in value}
    if isinstance(value, (list, tuple)):
        is_alone = is_alone and type(value) in (list, tuple)
        parts = [_owned(value, at, is_alone) for at in range(len(value))]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, np.ndarray):
        return value if _is_constant(value) or (is_alone and _has_own_memory(value)) else value.copy()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return value.detach().clone() if hasattr(value, "detach") else value  # a tensor of PyTorch


def _references(container: Any, key: Any) -> int:
    """Returns the number of references to a value of a container, including the references of this function."""
    value = container[key]
    return sys.getrefcount(value)


_ALONE = _references([np.empty(0)], 0)
"""Number of references to a value if nothing else refers to it; it depends on the version of Python."""


def _is_constant(array: np.ndarray) -> bool:
    return type(array) is np.ndarray and isinstance(array.base, bytes)


def _has_own_memory(array: np.ndarray) -> bool:
    """Whether an array to which nothing else refers has memory that only NumPy knows, as a view too."""
    owner = [array if array.base is None else array.base]
    is_alone = array.base is None or _references(owner, 0) == _ALONE + 1  # the reference of the view
    return is_alone and type(array) is type(owner[0]) is np.ndarray and owner[0].flags.owndata


def is_data_loader(made: Any) -> bool:
    loader = getattr(sys.modules.get("torch.utils.data"), "DataLoader", None)
    return loader is not None and type(made) is loader


def makes_fresh_batches(made: Any) -> bool:
    """Whether it is a DataLoader of PyTorch that stacks examples, or whose batches come from other processes."""
    if not is_data_loader(made):
        return False
    return made.num_workers > 0 or made.collate_fn is sys.modules["torch.utils.data"].default_collate
