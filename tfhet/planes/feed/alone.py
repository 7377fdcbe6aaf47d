"""Readers in a job without serving hosts: each rank prepares its own share of the batches."""

from __future__ import annotations

import collections
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tfhet.errors import NotReady, UsageError
from tfhet.pipeline import BatchMaker, MadeBatch, Pipeline
from tfhet.planes.feed.batch_reader import MAKE_LIMIT_S, START, BatchReader, Position
from tfhet.planes.feed.dataset import DatasetFacts, facts_of
from tfhet.planes.feed.delivered import DeliveredSet, Key, Received
from tfhet.planes.feed.frame import MemoryPool
from tfhet.planes.feed.production import Division, EndOfShard, Production
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.strategies import JobContext

MOST_MAKERS = 4
"""Maximum number of batches of a pipeline that are made at the same time; further CPUs share the work on each."""


def alone(source: FeedSource, job: JobContext, options: Mapping[str, Any]) -> BatchReader:
    """Returns the reader of a source in this process. options: see `DataPlane.batches`."""
    place: dict[str, Any] = {"rank": job.rank, "size": job.size, "is_equal": options["is_equal"]}
    if (pipeline := options.get("pipeline")) is None:
        return AloneReader(source, seed=job.seed, **place)
    given = {name: options[name] for name in ("ahead", "allocate", "make_limit_s")}
    return PipelineReader(pipeline, source, threads=job.threads, **given, **place)


class AloneReader:
    """A `BatchReader` in this process. An iterable gets the shard of its rank.

    Raises:
        UsageError: Several ranks read an iterable and must end at the same step, but its length is unknown.
    """

    def __init__(self, source: FeedSource, *, rank: int = 0, size: int = 1, seed: int = 0, is_equal: bool = True):
        if size > 1 and not source.batch_size:
            raise UsageError(
                f"{size} ranks read {source}, an iterable, each its own shard, and may end at different steps: start "
                "the job by tfhet's launcher with --data_plane feed and data hosts or --dnn_host_processes, or set "
                "batch_size and return a map-style dataset"
            )
        self.again, self.left, self.is_short = 0, 0, False
        self.shards = size
        self._production, self._seed, self._is_equal = Production(source, seed, is_alone=False), seed, is_equal
        self._rank, self._size, self._is_map = rank, size, bool(source.batch_size)
        self._share: Share | None = None

    def epoch(self, epoch: int, position: Position = START, *, continues: bool = True) -> Iterator[Received]:
        rank, size = (self._rank, self._size) if self._is_map else (0, 1)
        self._share = share = Share(epoch, self._seed, rank, size, 1, self._is_map, self._is_equal, position)
        while requests := share.requests(0, 1):
            request = requests[0]
            key = (request.shard.index, request.number)
            if not self._is_map:
                request = msgspec.structs.replace(request, shard=Shard(self._rank, self._size, epoch, self._seed))
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

    def facts(self, waits: bool = True) -> DatasetFacts | None:
        return self._production.facts

    def close(self) -> None:
        self._production.close()


class _Place(NamedTuple):
    """A batch of a pipeline: its number after so many examples of an epoch."""

    epoch: int
    offset: int
    number: int


class PipelineReader:
    """A `BatchReader` of a declared pipeline in this process. Threads make the batches, which come in their order."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: FeedSource,
        *,
        rank: int = 0,
        size: int = 1,
        is_equal: bool = True,
        threads: int = 1,
        ahead: int | None = None,
        make_limit_s: float = MAKE_LIMIT_S,
        allocate: Callable[[int], np.ndarray] | None = None,
    ) -> None:
        """
        Args:
            threads: Number of threads that make batches.
            ahead: Number of finished batches that wait; None: the pipeline's `prefetch`.
            make_limit_s: Limit in seconds for one batch.
            allocate: See `BatchMaker`; None: memory that is used again.
        """
        makers = min(MOST_MAKERS, threads)
        allocate = allocate or MemoryPool().allocate
        self._maker = BatchMaker(pipeline, threads=-(-threads // makers), allocate=allocate)
        self._make_limit_s, self._process = make_limit_s, os.getpid()
        self._source, self._rank, self._size, self._is_equal = source, rank, size, is_equal
        self._most = makers + (pipeline.prefetch if ahead is None else ahead)
        self._threads = ThreadPoolExecutor(makers, "tfhet-pipeline")
        self._begun: collections.deque[tuple[_Place, Future[MadeBatch]]] = collections.deque()
        self._at, self._delivered, self._iterations = -1, DeliveredSet(rank, size), 0
        self.again, self.left, self.shards, self.is_short = 0, 0, 1, False

    def epoch(self, epoch: int, position: Position = START, *, continues: bool = True) -> Iterator[Received]:
        """See `BatchReader`.

        Raises:
            DataError: An example cannot be read or decoded.
            NotReady: A batch takes more than `make_limit_s` seconds.
            UsageError: Another iteration has begun.
        """
        if os.getpid() != self._process:  # it has no threads
            raise UsageError("this process was forked after the loader had begun; make the loader in the child instead")
        self._iterations += 1
        this = self._iterations
        mine = self._places(epoch, position.offset)
        if self._begun and (not mine or self._begun[0][0] != mine[0]):  # another iteration ended early
            self._drop()
        if not self._begun:  # a reader that continues has announced all epochs
            announced = self._all_places(epoch + 1) if continues else ()
            self._maker.read_ahead(map(self._examples, itertools.chain(mine, announced)))
        later = self._places(epoch + 1, 0) if continues else []
        waiting = itertools.islice(itertools.chain(mine, later), len(self._begun), None)
        self._at, self._delivered = epoch, DeliveredSet(self._rank, self._size)
        for _ in mine:
            if this != self._iterations:
                raise UsageError("another iteration of this loader has begun: a rank reads one at a time")
            self._begin(itertools.islice(waiting, self._most - len(self._begun)))
            place, made = self._begun.popleft()
            found = Received(*self._finished(place, made), len(self._maker), (0, place.number), 0)
            del made
            self._delivered.add(found.key)
            yield found
            del found
        self.left += self._division(position.offset).batches % self._size if self._is_equal else 0

    def _finished(self, place: _Place, made: Future[MadeBatch]) -> MadeBatch:
        try:
            return made.result(self._make_limit_s)
        except TimeoutError:
            if made.done():  # an error of the source
                raise
            raise NotReady(
                f"batch {place.number} of epoch {place.epoch} of {self._maker.source.name} is not there after "
                f"{self._make_limit_s:g} s (make_limit_s): is its file system reachable?"
            ) from None

    def _division(self, offset: int) -> Division:
        return Division.of(self._source, len(self._maker) - offset)

    def _places(self, epoch: int, offset: int) -> list[_Place]:
        """Returns this rank's batches of an epoch."""
        batches = self._division(offset).batches
        whole = batches - batches % self._size if self._is_equal else batches
        return [_Place(epoch, offset, number) for number in range(self._rank, whole, self._size)]

    def _all_places(self, epoch: int) -> Iterator[_Place]:
        """Yields this rank's batches of an epoch and of all epochs after it."""
        for each in itertools.count(epoch):
            if not (places := self._places(each, 0)):
                return
            yield from places

    def _examples(self, place: _Place) -> np.ndarray:
        """Returns the places of a batch's examples in the source, int64 [n]."""
        division = self._division(place.offset)
        begin, end = (place.offset + division.begin(place.number + after) for after in (0, 1))
        return self._maker.order(place.epoch)[begin:end]

    def _begin(self, places: Iterator[_Place]) -> None:
        for place in places:
            made = self._threads.submit(self._maker.make, self._examples(place), place.epoch)
            self._begun.append((place, made))

    def _drop(self) -> None:
        for _, made in self._begun:
            made.cancel()
        self._begun.clear()

    def delivered(self, epoch: int) -> frozenset[Key]:
        return self._delivered.keys() if epoch == self._at else frozenset()

    def facts(self, waits: bool = True) -> DatasetFacts | None:
        return facts_of(self._maker)

    def part_us(self) -> dict[str, tuple[float, float]]:
        """See `BatchMaker.part_us`."""
        return self._maker.part_us()

    def close(self) -> None:
        self._drop()
        self._maker.read_ahead(iter(()))
        self._threads.shutdown(wait=False, cancel_futures=True)
