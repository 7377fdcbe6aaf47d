"""The iterable that a training script reads, and its reader in a job without serving hosts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import UsageError
from tfhet.messages import inherited, rank
from tfhet.planes.feed.delivered import BatchReader, DeliveredSet, Key, Received
from tfhet.planes.feed.frame import examples_in
from tfhet.planes.feed.production import NO_BATCH, BatchRequest, EndOfShard, Production
from tfhet.planes.feed.server_link import MAKE_LIMIT_S
from tfhet.planes.feed.share import Share
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.planes.registry import get
from tfhet.steps import Note, NotedLoader, ScriptSteps
from tfhet.strategies import JobContext

_ordinals = itertools.count()


class Loader:
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
        self.source = FeedSource.of(make, arguments, collate=collate, ordinal=next(_ordinals), **options)
        if not make_limit_s > 0:
            raise UsageError(f"make_limit_s must be positive, not {make_limit_s}")
        self._job, self._training, self._ahead, self._make_limit_s = job, training, ahead, make_limit_s
        self._convert, self._allocate, self._is_noted = convert or (lambda batch: batch), allocate, is_noted
        self._epoch, self._delivered = 0, frozenset[tuple[int, int]]()
        self._has_begun = False
        """Whether an iteration has begun `_epoch` and has not ended it."""
        self._reports_examples, self._has_reported = True, False
        self._notes: NotedLoader | None = None

    def __iter__(self) -> Iterator[Any]:
        """Iterates over an epoch from its beginning or, after `load_state_dict`, from the position of the state."""
        if self._has_begun:  # the last iteration ended early, for example by break
            self._epoch, self._delivered = self._epoch + 1, frozenset()
        epoch, delivered, noted = self._epoch, self._delivered, None
        if not self._has_reported:
            inherited(environment()).send(rank.Reading(endless=False), limit_s=1.0)
            ScriptSteps.of_process(self._job)
            self._has_reported = True
        self._delivered, self._has_begun = frozenset(), True
        received = self._reader.epoch(epoch, delivered, continues=self._training)
        for index in itertools.count():
            asked_s = SYSTEM.monotonic()
            found = next(received, None)
            now_s = SYSTEM.monotonic()
            if found is None:
                break
            batch, ids = self._convert(found.batch), found.ids
            noted = self._noted(ids is not None)
            if noted is not None:
                noted.add(Note(asked_s, now_s, examples_in(found.batch), index), ids, epoch)
                if found.examples is not None and self._reports_examples and (steps := ScriptSteps.here()) is not None:
                    steps.expect_examples(found.examples)
                    self._reports_examples = False
            del found
            yield batch
            del batch  # frees its memory for the next batch
        self._epoch, self._has_begun = epoch + 1, False
        if noted is not None:
            noted.add(Note(asked_s, now_s, None, index))

    def __len__(self) -> int:
        """Returns the number of batches of this rank in an epoch. Raises TypeError for an iterable."""
        if not self.source.batch_size:
            raise TypeError(f"{self.source} is an iterable: its length is unknown before its end")
        size, rank = self._job.size, self._job.rank
        total = self._batches
        return total // size + (not self._training and rank < total % size)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration; by default it is one more than the last. Raises UsageError below 0."""
        if epoch < 0:
            raise UsageError(f"an epoch is 0 or more, not {epoch}")
        self._epoch, self._delivered, self._has_begun = epoch, frozenset(), False

    @property
    def sampler(self) -> Loader:
        """The loader, for scripts that call `loader.sampler.set_epoch(epoch)`."""
        return self

    def state_dict(self) -> dict[str, Any]:
        """Returns this rank's position as JSON values: the epoch and the delivered batches. Each rank has its own."""
        job, delivered = self._job, self._reader.delivered(self._epoch) or self._delivered
        rows = DeliveredSet(job.rank, job.size, delivered).rows()
        return {"epoch": self._epoch, "taken": rows, "rank": job.rank, "size": job.size, "source": str(self.source)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues at the position of `state_dict`: the next iteration yields the other batches of that epoch. Raises
        UsageError for the state of another rank, number of ranks, or source."""
        job = self._job
        try:
            own = (int(state["rank"]), int(state["size"]), str(state["source"]))
            delivered = DeliveredSet.parse(state["taken"], job.rank, job.size)
            epoch = int(state["epoch"])
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"this is no state of a loader: {type(error).__name__}: {error}") from None
        if own != (job.rank, job.size, str(self.source)):
            raise UsageError(
                f"the state is of rank {own[0]} of {own[1]} reading {own[2]}; this is rank {job.rank} of {job.size} "
                f"reading {self.source}: with another number of ranks, start the epoch again (set_epoch)"
            )
        self._epoch, self._delivered, self._has_begun = epoch, delivered, False

    @property
    def counts(self) -> dict[str, int]:
        """Batches that no rank got (`left`), and, if known, that were made again for a lost server (`again`)."""
        counts = {"left": self._reader.left, "again": self._reader.again}
        return {name: count for name, count in counts.items() if count is not None}

    def close(self) -> None:
        """Ends the connections to the servers. A script that ends need not call it."""
        if "_reader" in vars(self):
            self._reader.close()

    @functools.cached_property
    def _batches(self) -> int:
        return self._reader.batches()

    @functools.cached_property
    def _reader(self) -> BatchReader:
        options: dict[str, Any] = {"is_equal": self._training, "make_limit_s": self._make_limit_s}
        options |= {"ahead": self._ahead, "allocate": self._allocate}
        return self._plane.batches(self.source, self._job, options)

    def _noted(self, has_ids: bool) -> NotedLoader | None:
        steps = ScriptSteps.of_process(self._job)
        if steps is not None and self._notes is None:
            self._notes = steps.watch_loader(self._training, has_ids)
        return self._notes


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
