"""The iterable that a training script reads."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import DataError, UsageError
from tfhet.messages import inherited, rank
from tfhet.pipeline import BatchMaker, Pipeline, as_json, from_json, is_native, runs_natively
from tfhet.planes.feed.batch_reader import MAKE_LIMIT_S, START, BatchReader, Position
from tfhet.planes.feed.data_loader import LikeDataLoader
from tfhet.planes.feed.delivered import Received, halves
from tfhet.planes.feed.frame import examples_in
from tfhet.planes.feed.production import Division
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.planes.feed.state import position_in, settings_of, state_of
from tfhet.planes.registry import get
from tfhet.steps import Note, NotedLoader, ScriptSteps, examples_in_epoch, facts
from tfhet.strategies import JobContext

PARTS_EACH = 64
"""Number of batches after which the record gets the cost of a pipeline's parts again."""
_ordinals = itertools.count()


class Loader(LikeDataLoader):
    """This rank's share of the batches of a user's function, or of a declared pipeline. See `tfhet.batches`."""

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
        with_ids: bool = False,
        pipeline: Pipeline | None = None,
    ):
        """
        Args:
            is_noted: Whether the steps of the script are those that this loader delivers to.
            with_ids: Whether each batch, a tuple, ends with ids and epochs, int64 [batch].
            pipeline: The declared pipeline that `make` serves; see `Loader.of_pipeline`.
        """
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
        leaves_over = training and (pipeline is None or drop_last)
        options["divides_among"] = 0 if leaves_over or not batch_size else job.size
        self.source = FeedSource.of(make, arguments, collate=collate, ordinal=next(_ordinals), **options)
        if not make_limit_s > 0:
            raise UsageError(f"make_limit_s must be positive, not {make_limit_s}")
        self._job, self._training, self._ahead, self._make_limit_s = job, training, ahead, make_limit_s
        self._convert, self._allocate, self._is_noted = convert or (lambda batch: batch), allocate, is_noted
        self.pipeline = pipeline
        """The declared pipeline; None for a function of the user."""
        self._with_ids = with_ids
        self._epoch, self._position = 0, START
        self._examples: int | None = None
        """Number of examples of an epoch of a map-style dataset, once known."""
        self._has_begun = False
        """Whether an iteration has begun `_epoch` and has not ended it."""
        self._has_reported = False
        self._notes: NotedLoader | None = None
        self._opened: tuple[int, BatchReader] | None = None
        if self._plane.opens_early(job):
            self._open()

    @classmethod
    def of_pipeline(cls, pipeline: Pipeline, *, job: JobContext, **options: Any) -> Loader:
        """Returns the loader of a declared pipeline. options: as for other loaders. Raises UsageError for a pipeline
        that only tf.data can run, and for one that serving hosts cannot make from its description."""
        arguments = {"pipeline": as_json(pipeline)} if job.is_served else {}
        options |= {"batch_size": pipeline.batch_size, "shuffle": bool(pipeline.shuffle)}
        return cls(served, arguments, drop_last=pipeline.drop_last, job=job, pipeline=pipeline, **options)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over an epoch from its beginning or, after `load_state_dict`, from the position of the state."""
        if self._has_begun:  # the last iteration ended early, for example by break
            self._epoch, self._position = self._epoch + 1, START
        epoch, position, noted = self._epoch, self._position, self._noted()
        if not self._has_reported:
            inherited(environment()).send(rank.Reading(endless=False), limit_s=1.0)
            self._has_reported = True
        self._has_begun = True
        if self._training and noted is not None and (steps := ScriptSteps.here()) is not None:
            steps.passes.begin()
        received = self._received(epoch, position)
        for index in itertools.count():
            asked_s = SYSTEM.monotonic()
            with noted.request() if noted is not None else contextlib.nullcontext():
                found = next(received, None)
                if found is None and index == 0 and position != START:  # the state was of the end of its epoch
                    self._epoch, self._position = epoch, position = epoch + 1, START
                    received = self._received(epoch, position)
                    found = next(received, None)
            now_s = SYSTEM.monotonic()
            if found is None and index == 0 and self.pipeline is not None and self.pipeline.drop_last:
                raise UsageError(
                    f"the examples of {self.pipeline.source.name} fill no batch of {self.source.batch_size} on each of "
                    f"{self._job.size} ranks: use smaller batches, or omit drop_last"
                )
            if found is None:
                break
            batch, ids, self._examples = self._convert(found.batch), found.ids, found.examples
            if self._with_ids and ids is not None:
                batch = (*batch, ids, np.full_like(ids, epoch))
            if noted is not None:
                noted.add(Note(asked_s, now_s, examples_in(found.batch), index), ids, epoch)
                noted.expected = self._in_epoch(found.examples) or noted.expected
                if index % PARTS_EACH == 0:
                    noted.part_us = {name: taken_us for name, (taken_us, _) in self.part_us().items()}
            del found
            yield batch
            del batch  # frees its memory for the next batch
        self._epoch, self._position, self._has_begun = epoch + 1, START, False
        if noted is not None:
            noted.add(Note(asked_s, now_s, None, index))
            noted.part_us = {name: taken_us for name, (taken_us, _) in self.part_us().items()}

    def _in_epoch(self, examples: int | None) -> int | None:
        """Returns the number of examples that the ranks read in an epoch of so many."""
        return examples if self.pipeline is None else examples_in_epoch(self.pipeline, self._job)

    def _received(self, epoch: int, position: Position) -> Iterator[Received]:
        """Yields the batches of an epoch; for validation the last one of an iterable in two parts if other ranks have a
        batch more."""
        received = self._reader.epoch(epoch, position, continues=self._training)
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
        return 0 if facts is None else Division.of(self.source, facts.examples).batches // self._job.size

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration; by default it is one more than the last. Raises UsageError unless it is
        a whole number from 0."""
        if not hasattr(epoch, "__index__") or epoch < 0:
            raise UsageError(f"an epoch is a whole number from 0, not {epoch!r}")
        self._epoch, self._position, self._has_begun = int(epoch), START, False

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the data as JSON values, and what it depends on. After the last batch of an epoch it
        is the beginning of the next one.

        For a pipeline or a map-style dataset, ranks that have read equally many batches have the same state, and any
        number of ranks, hosts and processes can continue from it, also with another batch size. For an iterable each
        rank has its own state.
        """
        epoch, position = self._epoch, self._position
        delivered = self._reader.delivered(epoch)
        if not self.source.batch_size:
            position = Position(0, delivered or position.delivered)
        elif delivered and self._examples is not None:
            division = Division.of(self.source, self._examples - position.offset)
            rounds, size = len(delivered), self._job.size
            is_whole = rounds == division.batches // size
            epoch += is_whole
            position = Position(0 if is_whole else position.offset + division.begin(rounds * size))
        facts = self._reader.facts(waits=False) if self.source.batch_size else None
        return state_of(epoch, position, self._settings, facts, self._job)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues at the position of `state_dict`: the next iteration yields the rest of that epoch. Raises
        UsageError for the state of another loader or of other data, and of another rank if it is of an iterable."""
        facts = self._reader.facts() if self.source.batch_size else None
        self._epoch, self._position = position_in(state, self._settings, facts)
        self._has_begun = False

    @property
    def _settings(self) -> dict[str, Any]:
        return settings_of(self.source, self._job, self._training, self._reader.shards, self.pipeline)

    @property
    def counts(self) -> dict[str, int]:
        """Batches that no rank got (`left`), and, if known, that were made again for a lost server (`again`)."""
        counts = {"left": self._reader.left, "again": self._reader.again}
        return {name: count for name, count in counts.items() if count is not None}

    def part_us(self) -> dict[str, tuple[float, float]]:
        """Returns microseconds of an example in each part of a pipeline that this process runs (`BatchMaker.part_us`);
        {} if it runs elsewhere."""
        reader: Any = self._opened[1] if self._opened is not None else None
        return reader.part_us() if hasattr(reader, "part_us") else {}

    def close(self) -> None:
        """Ends the connections to the servers. A script that ends need not call it."""
        if self._opened is not None and self._opened[0] == os.getpid():  # else the connections are of the parent
            self._opened[1].close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001  modules may be gone when Python ends
            return

    @property
    def _reader(self) -> BatchReader:
        if self._opened is None or (self._opened[0] != os.getpid() and not self._has_reported):
            self._open()  # again in a process that was forked before the first iteration
        assert self._opened is not None
        return self._opened[1]

    def _open(self) -> None:
        options: dict[str, Any] = {"is_equal": self._training, "make_limit_s": self._make_limit_s}
        options |= {"ahead": self._ahead, "allocate": self._allocate, "pipeline": self.pipeline}
        self._opened = os.getpid(), self._plane.batches(self.source, self._job, options)

    def _noted(self) -> NotedLoader | None:
        steps = ScriptSteps.of_process(self._job) if self._is_noted else None
        if steps is not None and self._notes is None:
            found = {} if self.pipeline is None else facts(self.pipeline, self._job, is_native=True)
            self._notes = steps.watch_loader(self._training, repr(replace(self.source, ordinal=0)), found)
        return self._notes


def served(shard: Shard, pipeline: Mapping[str, Any]) -> BatchMaker:
    """The function that serving hosts call for a declared pipeline, with its description."""
    return BatchMaker(from_json(pipeline))


def is_loaded(pipeline: Pipeline, job: JobContext) -> bool:
    """Whether a job runs a pipeline natively: wherever that works, unless tf.data service can serve it."""
    return is_native(pipeline) or (get(job.plane).serves_functions and runs_natively(pipeline))
