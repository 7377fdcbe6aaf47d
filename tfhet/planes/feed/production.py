"""Makes batches by number in a process of the feed, so that every process can make the same batch again.

production = Production(source, seed=1)
production.batch(BatchRequest(Shard(0, 4), number=8, first=4, ranks=2))   # ninth batch of a shard, or EndOfShard
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfhet.errors import TfhetError, UsageError
from tfhet.pipeline import BatchMaker, EpochOrder
from tfhet.planes.feed.dataset import DatasetFacts, facts_of, make, make_dataset
from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.shard_use import ShardUse
from tfhet.planes.feed.source import FeedSource, Randomness, Shard
from tfhet.planes.feed.stream import Stream, is_data_loader, makes_fresh_batches, owned

_NO_SHARDS = (
    "reads neither shard.index nor shard.count, so it makes the same batches in each of the {} processes, and one of "
    "them serves all: read files[shard.index :: shard.count], or seed a simulator with shard.index"
)


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


@dataclass(frozen=True)
class Division:
    """The division of the examples of a map-style dataset into batches."""

    examples: int
    batches: int
    batch_size: int
    whole: int
    """Number of the first batches that have `batch_size` examples; the others are about equally large."""

    @classmethod
    def of(cls, source: FeedSource, examples: int) -> Division:
        """Divides so many examples. The examples of a step of all ranks depend on the global batch alone: the last step
        has the remaining examples, or the last two share theirs if fewer than ranks remain. Raises UsageError if there
        is not an example for each batch."""
        size, ranks = source.batch_size, source.divides_among
        examples -= examples % size * source.drop_last
        batches = -(-examples // size)
        if not ranks or examples % (size * ranks) == 0:
            return cls(examples, batches, size, examples // size)
        rounds, left = examples // (size * ranks), examples % (size * ranks)
        whole = rounds if left >= ranks else rounds - 1
        if whole < 0 or (left < ranks and left + size * ranks < 2 * ranks):
            raise UsageError(
                f"{examples} examples cannot be divided into equally many batches of at most {size} for {ranks} ranks: "
                "use larger batches, or read all of the dataset on every rank, without tfhet"
            )
        return cls(examples, (rounds + 1) * ranks, size, whole * ranks)

    def begin(self, number: int) -> int:
        """Returns the place of the first example of a batch."""
        if number <= self.whole:
            return number * self.batch_size
        rest, batches = self.examples - self.whole * self.batch_size, self.batches - self.whole
        return self.whole * self.batch_size + (number - self.whole) * rest // batches


class Production:
    """Makes the batches of one source."""

    def __init__(self, source: FeedSource, seed: int, *, is_alone: bool = True):
        """is_alone: no other code of this process draws random numbers between two calls."""
        self.source, self._seed, self._is_alone = source, seed, is_alone
        self._streams: dict[tuple[int, int], Stream] = {}
        self._orders: dict[int, EpochOrder] = {}
        self._positions: dict[int, dict[tuple[int, int], int]] = {}
        """Number of examples that were delivered before each rank's latest iterations, by iteration and epoch."""
        self._reads_shards = False

    def batch(self, request: BatchRequest) -> ProducedBatch | EndOfShard | None:
        """Makes a batch; returns None if an iterable would run too far ahead of another rank. Raises the errors of the
        user's code, and UsageError if its function returned neither batches nor a dataset."""
        return self._of_examples(request) if self.source.batch_size else self._of_stream(request)

    def expect(self, request: BatchRequest) -> None:
        """Begins to load the examples of a batch that `batch` will make, if a pipeline has a remote source."""
        if isinstance(maker := self.__dict__.get("_dataset"), BatchMaker):
            with contextlib.suppress(TfhetError):  # `batch` raises it again
                if isinstance(places := self._places(request), np.ndarray):
                    maker.expect(places)

    def remove_reader(self, rank: int) -> None:
        """Called when a rank's connection has ended: no production waits for this rank any more."""
        self._positions.pop(rank, None)
        if isinstance(maker := self.__dict__.get("_dataset"), BatchMaker):
            maker.read_ahead(iter(()))  # its batches would stay in memory
        for stream in self._streams.values():
            stream.readers.discard(rank)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    @functools.cached_property
    def facts(self) -> DatasetFacts:
        """Facts of the map-style dataset, which is made for them."""
        return facts_of(self._dataset)

    @functools.cached_property
    def _dataset(self) -> Any:
        return make_dataset(self.source, self._seed, leaves_trace=self._is_alone)

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
                    made = [next(stream.iterator)]
                    batch = made[0] if stream.is_fresh else owned(made)
                except StopIteration:
                    stream.end = stream.made
                    stream.close()
                    break
            if self._is_served_by_first(stream, shard):
                stream.end = 0
                stream.close()
                break
            if stream.made < skipped:
                stream.made += 1
            else:
                stream.hold(batch, request)
        if stream.end is not None and stream.end < request.round_end:
            return EndOfShard(stream.end)
        return ProducedBatch(stream.held.pop(number), again=skipped)

    def _is_served_by_first(self, stream: Stream, shard: Shard) -> bool:
        """Whether the process of shard 0 serves all batches, since the function makes them in every process: it had not
        read its shard before the first one. Raises UsageError if it reads its shard later."""
        if shard.count == 1 or not self._is_alone:  # a rank that reads alone has all batches
            return False
        if stream.made == 0:
            self._reads_shards |= stream.use.has_read
            if not self._reads_shards and shard.index == 0:
                _print_once(f"[tfhet] {self.source} {_NO_SHARDS.format(shard.count)}")
            stream.is_whole = not self._reads_shards
        elif stream.is_whole and stream.use.has_read:
            raise UsageError(
                f"{self.source} reads shard.index or shard.count only after its first batch, so that all but one of "
                "the processes have taken it for a function that does not: read them before"
            )
        return stream.is_whole and shard.index > 0

    def _start(self, shard: Shard) -> Stream:
        """Starts the shard's iterable from its beginning, and closes the iterables of earlier epochs."""
        for key in [key for key in self._streams if key[0] < shard.epoch - 1 or key == (shard.epoch, shard.index)]:
            self._streams.pop(key).close()
        self.source.load()  # before: importing the module draws random numbers of its own
        # The same numbers for all shards until the function reads the index: it may shuffle what it divides then.
        seed = self._seed
        random = Randomness(seed, shard.epoch, leaves_trace=self._is_alone)
        use = ShardUse(lambda: random.restart(seed, shard.epoch, shard.index))  # without `self`, which holds the stream
        with random:
            made = make(self.source, use.observed(shard))
            if is_data_loader(made):  # it draws the seeds of its workers
                random.restart(self._seed, shard.epoch, shard.index)
            try:
                iterator = iter(made)
            except TypeError:
                raise UsageError(
                    f"{self.source} returned {type(made).__name__}, which is no iterable of batches; for a dataset "
                    "with __len__ and __getitem__ set batch_size"
                ) from None
        stream = Stream(random, iterator, use, is_fresh=makes_fresh_batches(made))
        self._streams[shard.epoch, shard.index] = stream
        return stream

    # A map-style dataset

    def _of_examples(self, request: BatchRequest) -> ProducedBatch | EndOfShard:
        order, places = self._order_of(request.shard), self._places(request)
        self._check_position(request)
        if isinstance(places, EndOfShard):
            return places
        if isinstance(self._dataset, BatchMaker):
            made = self._dataset.make(places, request.shard.epoch)
            return ProducedBatch(made.value, made.ids, len(order))
        with Randomness(self._seed, request.shard.epoch, request.number, leaves_trace=self._is_alone):
            batch = [self.source.collated([self._dataset[int(one)] for one in places])]
            return ProducedBatch(owned(batch) if self.source.collate else batch[0], places, len(order))

    def _places(self, request: BatchRequest) -> np.ndarray | EndOfShard:
        """Returns the places of a batch's examples, int64 [n]."""
        order, offset = self._order_of(request.shard), request.offset
        division = Division.of(self.source, len(order) - offset)
        if request.round_end > division.batches:
            return EndOfShard(division.batches)
        return order[offset + division.begin(request.number) : offset + division.begin(request.number + 1)]

    def _check_position(self, request: BatchRequest) -> None:
        """Raises UsageError if another rank begins this iteration elsewhere: examples would come twice or never."""
        this, epoch, offset = request.iteration, request.shard.epoch, request.offset
        mine = self._positions.get(request.rank, {})
        latest = {key: value for key, value in mine.items() if key[0] >= this - 3}  # a rank may request the next epoch
        self._positions[request.rank] = {**latest, (this, epoch): offset}
        for rank, others in self._positions.items():
            if others.get((this, epoch), offset) != offset:
                raise UsageError(
                    f"rank {request.rank} continues epoch {epoch} of {self.source} after {offset} examples, and rank "
                    f"{rank} after {others[this, epoch]}: give all ranks the state of one step"
                )

    def _order_of(self, shard: Shard) -> EpochOrder:
        """Returns the order of all examples in an epoch, the same in every process."""
        examples = self.facts.examples
        if len(self._dataset) != examples:
            raise UsageError(
                f"the length of the dataset of {self.source} has changed from {examples} to {len(self._dataset)}: "
                "other processes would number its examples differently"
            )
        if shard.epoch not in self._orders:
            if isinstance(self._dataset, BatchMaker):
                order = self._dataset.order(shard.epoch)
            else:
                order = EpochOrder((examples,), shuffle=self.source.shuffle, seed=self._seed, epoch=shard.epoch)
            self._orders = {epoch: one for epoch, one in self._orders.items() if epoch >= shard.epoch - 1}
            self._orders[shard.epoch] = order
        return self._orders[shard.epoch]


@functools.cache
def _print_once(line: str) -> None:
    print(line, flush=True)
