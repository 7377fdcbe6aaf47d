"""The reader of a script that no feed serves: it makes its share of the batches itself, as they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tfhet.errors import UsageError
from tfhet.planes.feed.production import MOST, Over, Production, Wish
from tfhet.planes.feed.received import Received
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.planes.feed.taken import Key


class AloneReader:
    """As `FeedReader`, in this process. An iterable gets the shard of its rank. Raises UsageError for one that several
    ranks read and that has to end for all of them alike: no one knows its length before."""

    def __init__(self, source: FeedSource, *, rank: int = 0, size: int = 1, seed: int = 0, is_equal: bool = True):
        if size > 1 and is_equal and not source.batch_size:
            raise UsageError(
                f"{size} ranks read {source}, an iterable, each its own shard, and may end at different steps: start "
                "the job by tfhet's launcher with --data_plane feed and data hosts or --dnn_host_processes, or give "
                "batch_size and return a map-style dataset"
            )
        self.again = self.left = 0
        self._production, self._seed, self._is_equal = Production(source, seed, is_alone=False), seed, is_equal
        self._rank, self._size, self._is_map = rank, size, bool(source.batch_size)
        self._share: Share | None = None

    def epoch(self, epoch: int, taken: Iterable[Key] = (), *, goes_on: bool = True) -> Iterator[Received]:
        """See `FeedReader`."""
        rank, size = (self._rank, self._size) if self._is_map else (0, 1)
        self._share = share = Share(epoch, self._seed, rank, size, 1, self._is_map, self._is_equal, taken)
        while wishes := share.wishes(0, 1):
            wish = wishes[0]
            key = (wish.shard.index, wish.number)
            ask = (*key, wish.is_rest)
            if not self._is_map:
                wish = replace(wish, shard=Shard(self._rank, self._size, epoch, self._seed))
            found = self._production.batch(wish)
            if isinstance(found, Over):
                share.is_over(ask, found.batches)
            elif found is not None and share.came(ask):
                share.taken.add(key)
                yield Received(found.value, found.ids, found.examples, key, 0)
        self.left += share.left

    def taken(self, epoch: int) -> frozenset[Key]:
        """See `FeedReader`."""
        return frozenset(self._share.taken) if self._share is not None and self._share.epoch == epoch else frozenset()

    def batches(self) -> int:
        """See `FeedReader`."""
        found = self._production.batch(Wish(Shard(0, 1, 0, self._seed), MOST, 0))
        return found.batches if isinstance(found, Over) else 0

    def close(self) -> None:
        self._production.close()
