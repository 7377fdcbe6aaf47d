"""Batches made in the process of a feed: by number, so that any process can make any of them, and again.

made = Production(source, seed=1)
answer = made.batch(Wish(Shard(0, 4), number=8, first=4, ranks=2))     # the ninth batch of a shard, or Over
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from tfhet.errors import UsageError
from tfhet.planes.feed.randomness import Randomness
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.schema import Count

HELD_FOR_A_RANK = 4
"""Least number of batches, for each rank, that an iterable may be ahead of ranks that have not asked for them yet."""

MOST = 1 << 53
"""More batches than any epoch has: a wish for it says how many there are."""


@dataclass(frozen=True)
class Wish:
    """A request of a reader, for one batch of a shard."""

    shard: Shard
    number: Count
    """Number of the batch in its shard, from 0."""
    first: Count
    """The lowest number that this reader still needs of the shard."""
    ranks: Annotated[int, Meta(ge=1)] = 1
    """Number of ranks that share the shard: each asks for other numbers."""
    is_rest: bool = False
    """Whether the batch may belong to a round that has none for each rank: else the shard is over before that one."""
    ahead: Count = 0
    """Number of batches that this reader may have from one server."""

    @property
    def most_held(self) -> int:
        """Number of batches that an iterable may be ahead: what one rank asks for before others begin, with the batch
        that its script has."""
        return max(HELD_FOR_A_RANK, self.ahead + 2) * self.ranks

    @property
    def rank(self) -> int:
        """The rank that asks, unless it is for a rest."""
        return self.number % self.ranks

    @property
    def round_end(self) -> int:
        """Number of batches up to the end of the round that the batch belongs to."""
        return self.number + 1 if self.is_rest else (self.number // self.ranks + 1) * self.ranks


@dataclass(frozen=True)
class Made:
    value: Any
    ids: np.ndarray | None = None
    """int64 [batch]: the numbers of its examples in a map-style dataset; None for batches of an iterable."""
    examples: int | None = None
    """Number of examples in a whole epoch of a map-style dataset; None for others."""
    again: int = 0
    """Number of batches that were made on the way to it, and thrown away: they had been read from another process."""


@dataclass(frozen=True)
class Over:
    """The shard has no batch of that number."""

    batches: int
    """How many it has."""


@dataclass(eq=False)
class _Stream:
    """One run of the user's iterable over a shard."""

    random: Randomness
    iterator: Iterator[Any]
    made: int = 0
    over: int | None = None
    held: dict[int, Any] = field(default_factory=dict)
    """Batches that were made on the way to later ones, by their number, ascending."""
    most_held: int = 0
    readers: set[int] = field(default_factory=set)
    """The ranks that have asked for some; another one may never do, having read it from another process."""

    def is_far_ahead(self, wish: Wish) -> bool:
        """Whether much is held for other ranks that read."""
        others = self.readers - {wish.rank}
        return sum(number % wish.ranks in others for number in self.held) >= self.most_held

    def asks(self, wish: Wish) -> None:
        """Notes that a rank asks, and gives up what it needs no more."""
        self.most_held = max(self.most_held, wish.most_held)
        if not wish.is_rest:
            self.readers.add(wish.rank)
            for number in [one for one in self.held if one < wish.first and one % wish.ranks == wish.rank]:
                del self.held[number]

    def hold(self, batch: Any, wish: Wish) -> None:
        """Holds the next batch, unless the one that asks has had it, and gives up the oldest one of too many for ranks
        that do not ask."""
        if not (self.made % wish.ranks == wish.rank and self.made < wish.first):
            self.held[self.made] = batch
        self.made += 1
        strange = [number for number in self.held if number % wish.ranks not in self.readers]
        if len(strange) > self.most_held:
            del self.held[strange[0]]

    def close(self) -> None:
        """Ends a generator where it stands."""
        close = getattr(self.iterator, "close", None)
        if close is not None:
            with contextlib.suppress(Exception):  # the user's clean-up, of what is not needed any more
                close()


class Production:
    """Makes the batches of one source."""

    def __init__(self, source: FeedSource, seed: int, *, is_alone: bool = True):
        """is_alone: whether nothing else in this process draws random numbers between two calls."""
        self.source, self._seed, self._is_alone = source, seed, is_alone
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._dataset: Any = None
        self._orders: dict[int, np.ndarray] = {}

    def batch(self, wish: Wish) -> Made | Over | None:
        """Makes a batch; None where an iterable would run too far ahead of another rank that reads it. Raises whatever
        the user's code raises, and UsageError where that gives no batches."""
        return self._of_examples(wish) if self.source.batch_size else self._of_stream(wish)

    def gone(self, rank: int) -> None:
        """Says that a rank's connection has ended: nothing waits for it to take what is held, from now on."""
        for stream in self._streams.values():
            stream.readers.discard(rank)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    # An iterable of batches

    def _of_stream(self, wish: Wish) -> Made | Over | None:
        number, shard = wish.number, wish.shard
        stream = self._streams.get((shard.epoch, shard.index))
        skipped = 0
        if stream is None or (number < stream.made and number not in stream.held):
            # What is gone went to a connection that is lost.
            stream, skipped = self._begun(shard), max(0, wish.first - wish.most_held)
        stream.asks(wish)
        while stream.over is None and stream.made < wish.round_end:
            if stream.is_far_ahead(wish):
                return None
            with stream.random:
                try:
                    batch = next(stream.iterator)
                except StopIteration:
                    stream.over = stream.made
                    stream.close()
                    break
            if stream.made < skipped:
                stream.made += 1
            else:
                stream.hold(batch, wish)
        if stream.over is not None and stream.over < wish.round_end:
            return Over(stream.over)
        return Made(stream.held.pop(number), again=skipped)

    def _begun(self, shard: Shard) -> _Stream:
        """The shard's iterable from its beginning; those of epochs that are over are given up."""
        for key in [key for key in self._streams if key[0] < shard.epoch - 1 or key == (shard.epoch, shard.index)]:
            self._streams.pop(key).close()
        self.source.load()  # before: what it loads has random numbers of its own
        random = Randomness(self._seed, shard.epoch, shard.index, leaves_trace=self._is_alone)
        with random:
            made = self._made(shard)
            try:
                iterator = iter(made)
            except TypeError:
                raise UsageError(
                    f"{self.source} returned {type(made).__name__}, which is no iterable of batches; for a dataset "
                    "with __len__ and __getitem__ give batch_size"
                ) from None
        stream = self._streams[shard.epoch, shard.index] = _Stream(random, iterator)
        return stream

    def _made(self, shard: Shard) -> Any:
        made = self.source.make(shard)
        if hasattr(made, "iter_internal_ref_bundles"):
            raise UsageError(
                f"{self.source} returned a Ray data set, which --data_plane ray reads; start the job with it"
            )
        return made

    # A map-style dataset

    def _of_examples(self, wish: Wish) -> Made | Over:
        order = self._order_of(wish.shard)
        size = self.source.batch_size
        batches = len(order) // size if self.source.drop_last else -(-len(order) // size)
        if wish.round_end > batches:
            return Over(batches)
        with Randomness(self._seed, wish.shard.epoch, wish.number, leaves_trace=self._is_alone):
            ids = order[wish.number * size : (wish.number + 1) * size]
            return Made(self.source.collated([self._dataset[int(one)] for one in ids]), ids, len(order))

    def _order_of(self, shard: Shard) -> np.ndarray:
        """The numbers of all examples, int64 [n], in the order of an epoch: the same in every process."""
        if self._dataset is None:
            made = self._made(Shard(0, 1, 0, shard.seed))
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
