"""Whether a function uses its shard: one that does not makes the same batches in every process."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from tfhet.planes.feed.source import Shard


class ShardUse:
    """The reads of a shard's index and count by a function, in this process or in one that it started."""

    def __init__(self, on_index: Callable[[], None]):
        """on_index: called at the first read of the index in this process."""
        self._memory = mmap.mmap(-1, 1)  # shared with forked processes, such as the workers of a DataLoader
        self._on_index: Callable[[], None] | None = on_index
        self._process = os.getpid()

    @property
    def has_read(self) -> bool:
        return self._memory[0] != 0

    def add(self, name: str) -> None:
        self._memory[0] = 1
        on_index = self._on_index
        if name == "index" and on_index is not None and os.getpid() == self._process:
            self._on_index = None
            on_index()

    def observed(self, shard: Shard) -> Shard:
        return _ObservedShard(self, shard)


class _ObservedShard(Shard):
    def __init__(self, use: ShardUse, shard: Shard):
        super().__init__(*astuple(shard))
        object.__setattr__(self, "_use", use)

    def __getattribute__(self, name: str) -> Any:
        if name in ("index", "count"):
            object.__getattribute__(self, "_use").add(name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:  # to print a shard is not to use it
        return repr(Shard(*(object.__getattribute__(self, name) for name in ("index", "count", "epoch", "seed"))))

    def __reduce__(self) -> tuple[Any, ...]:  # the other process may use it
        return Shard, (self.index, self.count, self.epoch, self.seed)
