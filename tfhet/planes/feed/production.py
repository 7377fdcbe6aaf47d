"""Makes batches by number in a process of the feed, so that every process can make the same batch again.

production = Production(source, seed=1)
production.batch(BatchRequest(Shard(0, 4), number=8, first=4, ranks=2))   # ninth batch of a shard, or EndOfShard
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from tfhet.errors import UsageError
from tfhet.planes.feed.source import FeedSource, Randomness, Shard
from tfhet.schema import Count

HELD_FOR_A_RANK = 4
"""Minimum number of batches, for each rank, that an iterable may be ahead of ranks that have not requested them."""
NO_BATCH = 1 << 53
"""Sentinel batch number: requesting it returns the number of batches of the epoch."""


@dataclass(frozen=True)
class BatchRequest:
    """A reader's request for one batch of a shard."""

    shard: Shard
    number: Count
    """Index of the batch in its shard."""
    first: Count
    """The lowest index that this reader still needs of the shard."""
    ranks: Annotated[int, Meta(ge=1)] = 1
    """Number of ranks that share the shard; each requests other batches."""
    is_rest: bool = False
    """Whether the batch may belong to an incomplete round; otherwise the shard ends before that round."""
    ahead: Count = 0
    """Number of batches that this reader may have from one server at a time."""

    @property
    def most_held(self) -> int:
        """Number of batches that an iterable may be ahead, among them the one that the script of a rank has."""
        return max(HELD_FOR_A_RANK, self.ahead + 2) * self.ranks

    @property
    def rank(self) -> int:
        """The rank that requests the batch, unless `is_rest`."""
        return self.number % self.ranks

    @property
    def round_end(self) -> int:
        """Number of batches up to the end of the round that the batch belongs to."""
        return self.number + 1 if self.is_rest else (self.number // self.ranks + 1) * self.ranks


@dataclass(frozen=True)
class ProducedBatch:
    """A batch, with the `ids` and `examples` of `Received`."""

    value: Any
    ids: np.ndarray | None = None
    examples: int | None = None
    again: int = 0
    """Number of batches that were made before it and dropped, because another process had already sent them."""


@dataclass(frozen=True)
class EndOfShard:
    """The shard has no such batch."""

    batches: int  # of the shard


@dataclass(eq=False)
class _Stream:
    """A run of the user's iterable over a shard."""

    random: Randomness
    iterator: Iterator[Any]
    made: int = 0
    end: int | None = None
    """Number of batches, once the iterable has ended."""
    held: dict[int, Any] = field(default_factory=dict)
    """Batches that were made before a requested one, by number, ascending."""
    most_held: int = 0
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


class Production:
    """Makes the batches of one source."""

    def __init__(self, source: FeedSource, seed: int, *, is_alone: bool = True):
        """is_alone: no other code of this process draws random numbers between two calls."""
        self.source, self._seed, self._is_alone = source, seed, is_alone
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._dataset: Any = None
        self._orders: dict[int, np.ndarray] = {}

    def batch(self, request: BatchRequest) -> ProducedBatch | EndOfShard | None:
        """Makes a batch; returns None if an iterable would run too far ahead of another rank. Raises the errors of the
        user's code, and UsageError if its function returned neither batches nor a dataset."""
        return self._of_examples(request) if self.source.batch_size else self._of_stream(request)

    def remove_reader(self, rank: int) -> None:
        """Called when a rank's connection has ended: no production waits for this rank any more."""
        for stream in self._streams.values():
            stream.readers.discard(rank)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    # An iterable of batches

    def _of_stream(self, request: BatchRequest) -> ProducedBatch | EndOfShard | None:
        number, shard = request.number, request.shard
        stream = self._streams.get((shard.epoch, shard.index))
        skipped = 0
        if stream is None or (number < stream.made and number not in stream.held):
            # A connection was lost with the batches between.
            stream, skipped = self._start(shard), max(0, request.first - request.most_held)
        stream.on_request(request)
        while stream.end is None and stream.made < request.round_end:
            if stream.is_far_ahead(request):
                return None
            with stream.random:
                try:
                    batch = next(stream.iterator)
                except StopIteration:
                    stream.end = stream.made
                    stream.close()
                    break
            if stream.made < skipped:
                stream.made += 1
            else:
                stream.hold(batch, request)
        if stream.end is not None and stream.end < request.round_end:
            return EndOfShard(stream.end)
        return ProducedBatch(stream.held.pop(number), again=skipped)

    def _start(self, shard: Shard) -> _Stream:
        """Starts the shard's iterable from its beginning, and closes the iterables of earlier epochs."""
        for key in [key for key in self._streams if key[0] < shard.epoch - 1 or key == (shard.epoch, shard.index)]:
            self._streams.pop(key).close()
        self.source.load()  # before: importing the module may draw random numbers
        random = Randomness(self._seed, shard.epoch, shard.index, leaves_trace=self._is_alone)
        with random:
            made = self._make(shard)
            try:
                iterator = iter(made)
            except TypeError:
                raise UsageError(
                    f"{self.source} returned {type(made).__name__}, which is no iterable of batches; for a dataset "
                    "with __len__ and __getitem__ set batch_size"
                ) from None
        stream = self._streams[shard.epoch, shard.index] = _Stream(random, iterator)
        return stream

    def _make(self, shard: Shard) -> Any:
        made = self.source.make(shard)
        if hasattr(made, "iter_internal_ref_bundles"):
            raise UsageError(
                f"{self.source} returned a Ray data set, which --data_plane ray reads; start the job with it"
            )
        return made

    # A map-style dataset

    def _of_examples(self, request: BatchRequest) -> ProducedBatch | EndOfShard:
        order = self._order_of(request.shard)
        size = self.source.batch_size
        batches = len(order) // size if self.source.drop_last else -(-len(order) // size)
        if request.round_end > batches:
            return EndOfShard(batches)
        with Randomness(self._seed, request.shard.epoch, request.number, leaves_trace=self._is_alone):
            ids = order[request.number * size : (request.number + 1) * size]
            return ProducedBatch(self.source.collated([self._dataset[int(one)] for one in ids]), ids, len(order))

    def _order_of(self, shard: Shard) -> np.ndarray:
        """Returns the numbers of all examples in the order of an epoch, int64 [n], the same in every process."""
        if self._dataset is None:
            made = self._make(Shard(0, 1, 0, shard.seed))
            if not (hasattr(made, "__len__") and hasattr(made, "__getitem__")):
                raise UsageError(
                    f"{self.source} returned {type(made).__name__}, which has no __len__ and __getitem__: batch_size "
                    "is for datasets that have; without batch_size the function returns an iterable of batches"
                )
            self._dataset = made
        if shard.epoch not in self._orders:
            order = np.arange(len(self._dataset))
            if self.source.shuffle:
                np.random.Generator(np.random.PCG64([self._seed, shard.epoch])).shuffle(order)
            self._orders = {epoch: one for epoch, one in self._orders.items() if epoch >= shard.epoch - 1}
            self._orders[shard.epoch] = order
        return self._orders[shard.epoch]
