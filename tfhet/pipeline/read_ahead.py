"""Read-ahead of a remote source: the next batches are loaded while the core decodes the batches before them."""

from __future__ import annotations

import collections
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from tfhet.errors import TfhetError
from tfhet.kernels import Contents
from tfhet.source import IndexedSource

MEMORY_BYTES = 256 << 20
"""Bytes of the examples that are loaded ahead in a process; at least two batches, whatever their size."""
GROUPS = 4
"""Number of groups of batches that are loaded at the same time. A group is loaded together, so that neighbouring
records become one request."""
_MOST = 64
"""Maximum number of batches of a group."""


class _Part(NamedTuple):
    """A batch of a group."""

    loaded: Future[dict[str, Any]]
    begin: int
    end: int


class ReadAhead:
    """Loads examples: those that `follow` announced ahead of time, others when needed. Threads may share it."""

    def __init__(self, source: IndexedSource) -> None:
        self._source, self._lock = source, threading.Lock()
        self._batches = collections.deque[Iterator[np.ndarray]]()
        self._parts: dict[bytes, collections.deque[_Part]] = {}
        self._groups: collections.Counter[Future[dict[str, Any]]] = collections.Counter()
        """Number of the batches of each group that were not used yet."""
        self._batch_bytes = 0.0
        self._threads: ThreadPoolExecutor | None = None

    def follow(self, batches: Iterator[np.ndarray], *, continues: bool = False) -> None:
        """Announces the next batches, int64 ids [n], in place of those that were announced before, or after them."""
        if not getattr(self._source, "is_remote", False):
            return
        with self._lock:
            if not continues:
                self._parts.clear()
                self._groups.clear()
                self._batches.clear()
            self._batches.append(batches)
            self._fill()

    def load(self, ids: np.ndarray) -> dict[str, Any]:
        """Returns what the source's `load` does, and raises its errors."""
        with self._lock:
            parts = self._parts.get(key := ids.tobytes())
            part = parts.popleft() if parts else None
            if parts is not None and not parts:
                del self._parts[key]
        if part is None:
            return self._source.load(ids)
        try:
            features = part.loaded.result()
        except TfhetError:  # perhaps of another batch of the group
            return self._source.load(ids)
        finally:
            with self._lock:
                self._groups[part.loaded] -= 1
                self._fill()
        return {name: values[part.begin : part.end] for name, values in features.items()}

    def _fill(self) -> None:
        """Begins to load groups, as many as the memory may hold."""
        self._groups += collections.Counter()  # drops groups that were used up
        # Two more groups are in memory: the batches of one are decoded, and one is being received.
        size = int(min(MEMORY_BYTES / (GROUPS + 2) // self._batch_bytes, _MOST)) if self._batch_bytes else 1
        while len(self._groups) < (GROUPS if size else 2):
            if not (group := self._next(max(1, size))):
                return
            self._threads = self._threads or ThreadPoolExecutor(GROUPS, "tfhet-read-ahead")
            loaded = self._threads.submit(self._loaded, group)
            self._groups[loaded] = len(group)
            ends = list(itertools.accumulate(map(len, group)))
            for ids, end in zip(group, ends, strict=True):
                self._parts.setdefault(ids.tobytes(), collections.deque()).append(_Part(loaded, end - len(ids), end))

    def _next(self, size: int) -> list[np.ndarray]:
        """Returns at most `size` announced batches."""
        found: list[np.ndarray] = []
        while self._batches and len(found) < size:
            part = list(itertools.islice(self._batches[0], size - len(found)))
            found += part
            if not part:
                self._batches.popleft()
        return found

    def _loaded(self, group: list[np.ndarray]) -> dict[str, Any]:
        features = self._source.load(np.concatenate(group))
        self._batch_bytes = max(1.0, sum(map(_size, features.values())) / len(group))
        return features


def _size(values: Any) -> int:
    """Returns the bytes of image files or of an array."""
    return int(values.nbytes if isinstance(values, np.ndarray) else Contents.of(values).lengths.sum())
