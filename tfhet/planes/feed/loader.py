"""The iterable that a training script reads, and its reader in a job without serving hosts."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import DataError, UsageError
from tfhet.messages import inherited, rank
from tfhet.planes.feed.data_loader import LikeDataLoader
from tfhet.planes.feed.dataset import DatasetFacts
from tfhet.planes.feed.delivered import BatchReader, DeliveredSet, Key, Received, halves
from tfhet.planes.feed.frame import examples_in
from tfhet.planes.feed.production import Division, EndOfShard, Production
from tfhet.planes.feed.server_link import MAKE_LIMIT_S
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.planes.feed.state import check, dataset_of, position_in, settings_of
from tfhet.planes.registry import get
from tfhet.steps import Note, NotedLoader, ScriptSteps
from tfhet.strategies import JobContext

_ordinals = itertools.count()


class Loader(LikeDataLoader):
    """This rank's share of the batches of a user's function. See `tfhet.batches`."""

    def __init__(
        self,
        make: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        batch_size: int = 0,
        shuffle: bool = False,
        drop_last: bool = False,
        collate: Callable[..., Any] | None = None,
        training: bool = True,
        ahead: int | None = None,
        make_limit_s: float = MAKE_LIMIT_S,
        job: JobContext,
        convert: Callable[[Any], Any] | None = None,
        allocate: Callable[[int], np.ndarray] | None = None,
        is_noted: bool = True,
    ):
        """is_noted: whether the steps of the script are those that this loader delivers to."""
        if batch_size < 0 or (not batch_size and (shuffle or drop_last or collate is not None)):
            raise UsageError(
                "shuffle, drop_last and collate are for map-style datasets: set batch_size"
                if not batch_size
                else f"batch_size must be at least 1, not {batch_size}"
            )
        self._plane = get(job.plane)
        if not self._plane.serves_functions:
            raise UsageError(
                f"this job's data plane, {job.plane}, serves TensorFlow's data sets; to have a Python function served, "
                "start it with --data_plane feed"
            )
        options: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last}
        options["divides_among"] = 0 if training or not batch_size else job.size
        self.source = FeedSource.of(make, arguments, collate=collate, ordinal=next(_ordinals), **options)
        if not make_limit_s > 0:
            raise UsageError(f"make_limit_s must be positive, not {make_limit_s}")
        self._job, self._training, self._ahead, self._make_limit_s = job, training, ahead, make_limit_s
        self._convert, self._allocate, self._is_noted = convert or (lambda batch: batch), allocate, is_noted
        self._epoch, self._delivered = 0, frozenset[tuple[int, int]]()
        self._has_begun = False
        """Whether an iteration has begun `_epoch` and has not ended it."""
        self._has_reported = False
        self._notes: NotedLoader | None = None
        self._opened: tuple[int, BatchReader] | None = None
        if self._plane.opens_early(job):
            self._open()

    def __iter__(self) -> Iterator[Any]:
        """Iterates over an epoch from its beginning or, after `load_state_dict`, from the position of the state."""
        if self._has_begun:  # the last iteration ended early, for example by break
            self._epoch, self._delivered = self._epoch + 1, frozenset()
        epoch, delivered, noted = self._epoch, self._delivered, self._noted()
        if not self._has_reported:
            inherited(environment()).send(rank.Reading(endless=False), limit_s=1.0)
            self._has_reported = True
        self._delivered, self._has_begun = frozenset(), True
        if self._training and noted is not None and (steps := ScriptSteps.here()) is not None:
            steps.passes.begin()
        received = self._received(epoch, delivered)
        for index in itertools.count():
            asked_s = SYSTEM.monotonic()
            with noted.request() if noted is not None else contextlib.nullcontext():
                found = next(received, None)
                if found is None and index == 0 and delivered:  # the state was of the end of its epoch
                    self._epoch = epoch = epoch + 1
                    received = self._received(epoch)
                    found = next(received, None)
            now_s = SYSTEM.monotonic()
            if found is None:
                break
            batch, ids = self._convert(found.batch), found.ids
            if noted is not None:
                noted.add(Note(asked_s, now_s, examples_in(found.batch), index), ids, epoch)
                noted.expected = found.examples or noted.expected
            del found
            yield batch
            del batch  # frees its memory for the next batch
        self._epoch, self._has_begun = epoch + 1, False
        if noted is not None:
            noted.add(Note(asked_s, now_s, None, index))

    def _received(self, epoch: int, delivered: frozenset[Key] = frozenset()) -> Iterator[Received]:
        """Yields the batches of an epoch; for validation the last one of an iterable in two parts if other ranks have a
        batch more."""
        received = self._reader.epoch(epoch, delivered, continues=self._training)
        if self._training or self.source.batch_size or self._job.size == 1:
            yield from received
            return
        last: Received | None = None
        for found in received:
            if last is not None:
                yield last
            last = found
        parts = [] if last is None else halves(last) if self._reader.is_short else [last]
        if self._reader.is_short and not parts:
            raise DataError(
                f"{self.source} returned batches that cannot be divided into equally many for {self._job.size} ranks, "
                "as validation needs: return a map-style dataset and set batch_size, or read all of it on every rank, "
                "without tfhet"
            )
        yield from parts

    def __len__(self) -> int:
        """Returns the number of batches of this rank in an epoch. Raises TypeError for an iterable."""
        if not self.source.batch_size:
            raise TypeError(f"{self.source} is an iterable: its length is unknown before its end")
        facts = self._reader.facts()
        return 0 if facts is None else self._batches_of(facts)

    def _batches_of(self, facts: DatasetFacts) -> int:
        return Division.of(self.source, facts.examples).batches // self._job.size

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration; by default it is one more than the last. Raises UsageError unless it is
        a whole number from 0."""
        if not hasattr(epoch, "__index__") or epoch < 0:
            raise UsageError(f"an epoch is a whole number from 0, not {epoch!r}")
        self._epoch, self._delivered, self._has_begun = int(epoch), frozenset(), False

    def state_dict(self) -> dict[str, Any]:
        """Returns this rank's position as JSON values: the epoch, the delivered batches, and what they depend on. After
        the last batch of an epoch it is the beginning of the next one. Each rank has its own."""
        job, epoch, delivered = self._job, self._epoch, self._reader.delivered(self._epoch) or self._delivered
        facts = self._reader.facts(waits=False) if self.source.batch_size else None
        if facts is not None and delivered and len(delivered) >= self._batches_of(facts):
            epoch, delivered = epoch + 1, frozenset()
        rows = DeliveredSet(job.rank, job.size, delivered).rows()
        return {"epoch": epoch, "taken": rows, "dataset": dataset_of(facts), **self._settings}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues at the position of `state_dict`: the next iteration yields the other batches of that epoch. Raises
        UsageError for the state of another rank or loader, or of other data."""
        epoch, delivered, dataset = position_in(state, self._settings)
        if dataset is not None and (own := dataset_of(self._reader.facts())) is not None:
            check(dataset, own, epoch)
        self._epoch, self._delivered, self._has_begun = epoch, delivered, False

    @property
    def _settings(self) -> dict[str, Any]:
        return settings_of(self.source, self._job, self._training, self._reader.shards)

    @property
    def counts(self) -> dict[str, int]:
        """Batches that no rank got (`left`), and, if known, that were made again for a lost server (`again`)."""
        counts = {"left": self._reader.left, "again": self._reader.again}
        return {name: count for name, count in counts.items() if count is not None}

    def close(self) -> None:
        """Ends the connections to the servers. A script that ends need not call it."""
        if self._opened is not None and self._opened[0] == os.getpid():  # else the connections are of the parent
            self._opened[1].close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    @property
    def _reader(self) -> BatchReader:
        if self._opened is None or (self._opened[0] != os.getpid() and not self._has_reported):
            self._open()  # again in a process that was forked before the first iteration
        assert self._opened is not None
        return self._opened[1]

    def _open(self) -> None:
        options: dict[str, Any] = {"is_equal": self._training, "make_limit_s": self._make_limit_s}
        options |= {"ahead": self._ahead, "allocate": self._allocate}
        self._opened = os.getpid(), self._plane.batches(self.source, self._job, options)

    def _noted(self) -> NotedLoader | None:
        steps = ScriptSteps.of_process(self._job) if self._is_noted else None
        if steps is not None and self._notes is None:
            self._notes = steps.watch_loader(self._training, repr(replace(self.source, ordinal=0)))
        return self._notes


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

    def facts(self, waits: bool = True) -> DatasetFacts | None:
        return self._production.facts

    def close(self) -> None:
        self._production.close()
