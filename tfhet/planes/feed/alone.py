"""The reader of a script without serving hosts: it makes its share of the batches itself, when they are requested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tfhet.errors import UsageError
from tfhet.planes.feed.delivered import Key, Received
from tfhet.planes.feed.production import NO_BATCH, BatchRequest, EndOfShard, Production
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource, Shard


class AloneReader:
    """A `BatchReader` in this process. An iterable gets the shard of its rank.

    Raises:
        UsageError: Several ranks read an iterable and must end at the same step, but its length is unknown.
    """

    def __init__(self, source: FeedSource, *, rank: int = 0, size: int = 1, seed: int = 0, is_equal: bool = True):
        if size > 1 and is_equal and not source.batch_size:
            raise UsageError(
                f"{size} ranks read {source}, an iterable, each its own shard, and may end at different steps: start "
                "the job by tfhet's launcher with --data_plane feed and data hosts or --dnn_host_processes, or set "
                "batch_size and return a map-style dataset"
            )
        self.again = self.left = 0
        self._production, self._seed, self._is_equal = Production(source, seed, is_alone=False), seed, is_equal
        self._rank, self._size, self._is_map = rank, size, bool(source.batch_size)
        self._share: Share | None = None

    def epoch(self, epoch: int, delivered: Iterable[Key] = (), *, continues: bool = True) -> Iterator[Received]:
        rank, size = (self._rank, self._size) if self._is_map else (0, 1)
        self._share = share = Share(epoch, self._seed, rank, size, 1, self._is_map, self._is_equal, delivered)
        while requests := share.requests(0, 1):
            request = requests[0]
            key = (request.shard.index, request.number)
            if not self._is_map:
                request = replace(request, shard=Shard(self._rank, self._size, epoch, self._seed))
            found = self._production.batch(request)
            if isinstance(found, EndOfShard):
                share.end_shard((*key, request.is_rest), found.batches)
            elif found is not None and share.accept((*key, request.is_rest)):
                share.delivered.add(key)
                yield Received(found.value, found.ids, found.examples, key, 0)
        self.left += share.left

    def delivered(self, epoch: int) -> frozenset[Key]:
        share = self._share
        return share.delivered.keys() if share is not None and share.epoch == epoch else frozenset()

    def batches(self) -> int:
        found = self._production.batch(BatchRequest(Shard(0, 1, 0, self._seed), NO_BATCH, 0))
        return found.batches if isinstance(found, EndOfShard) else 0

    def close(self) -> None:
        self._production.close()
