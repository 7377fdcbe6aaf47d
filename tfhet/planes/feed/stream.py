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


def copied(batch: Any) -> Any:
    """Returns a batch that the user's code, which may use a buffer again, cannot change any more."""
    if isinstance(batch, Mapping):
        return {key: copied(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return (list if isinstance(batch, list) else tuple)(map(copied, batch))
    if isinstance(batch, np.ndarray):
        return batch.copy()
    if isinstance(batch, (bytearray, memoryview)):
        return bytes(batch)
    return batch.detach().clone() if hasattr(batch, "detach") else batch  # a tensor of PyTorch


def is_data_loader(made: Any) -> bool:
    loader = getattr(sys.modules.get("torch.utils.data"), "DataLoader", None)
    return loader is not None and type(made) is loader


def makes_fresh_batches(made: Any) -> bool:
    """Whether it is a DataLoader of PyTorch that stacks examples, or whose batches come from other processes."""
    if not is_data_loader(made):
        return False
    return made.num_workers > 0 or made.collate_fn is sys.modules["torch.utils.data"].default_collate
