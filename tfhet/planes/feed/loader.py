"""The iterable that a training script reads: `for batch in loader`, an epoch each time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import UsageError
from tfhet.messages import inherited, rank
from tfhet.planes.feed.frame import examples_in
from tfhet.planes.feed.received import BatchReader
from tfhet.planes.feed.source import FeedSource
from tfhet.planes.feed.taken import Taken, expanded
from tfhet.planes.feed.work import MAKE_LIMIT_S
from tfhet.planes.registry import get
from tfhet.steps import Note, NotedLoader, ScriptSteps
from tfhet.strategies import JobContext

_ordinals = itertools.count()


class Loader:
    """The batches of a function of the user's, this rank's share of them. See `tfhet.batches`."""

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
        convert: Callable[[Any], Any] = lambda batch: batch,
        allocate: Callable[[int], np.ndarray] | None = None,
        is_noted: bool = True,
    ):
        """is_noted: whether the steps of the script are those that this loader delivers to."""
        if batch_size < 0 or (not batch_size and (shuffle or drop_last or collate is not None)):
            raise UsageError(
                "shuffle, drop_last and collate are for map-style datasets, of which batch_size makes batches"
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
        self._convert, self._allocate, self._is_noted = convert, allocate, is_noted
        self._epoch, self._taken = 0, frozenset[tuple[int, int]]()
        self._has_begun = False
        """Whether an iteration has begun `_epoch`, and has not come to its end."""
        self._says_examples, self._has_said = True, False
        self._notes: NotedLoader | None = None

    def __iter__(self) -> Iterator[Any]:
        """An epoch, from its beginning or, the first time after `load_state_dict`, from where that stood."""
        if self._has_begun:  # the last iteration was left early, as by break
            self._epoch, self._taken = self._epoch + 1, frozenset()
        epoch, taken, noted = self._epoch, self._taken, None
        self._say_reading()
        self._taken, self._has_begun = frozenset(), True
        received = self._reader.epoch(epoch, taken, goes_on=self._training)
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
                if found.examples is not None and self._says_examples and (steps := ScriptSteps.here()) is not None:
                    steps.expect_examples(found.examples)
                    self._says_examples = False
            del found
            yield batch
            del batch  # else its memory could not be used for the next one
        self._epoch, self._has_begun = epoch + 1, False
        if noted is not None:
            noted.add(Note(asked_s, now_s, None, index))

    def __len__(self) -> int:
        """Number of batches of this rank in an epoch of a map-style dataset. Raises TypeError for an iterable."""
        if not self.source.batch_size:
            raise TypeError(f"{self.source} is an iterable, whose length only its end shows")
        size, rank = self._job.size, self._job.rank
        total = self._batches
        return total // size + (not self._training and rank < total % size)

    def set_epoch(self, epoch: int) -> None:
        """Has the next iteration read that epoch; by default each one reads the next. Raises UsageError below 0."""
        if epoch < 0:
            raise UsageError(f"an epoch is 0 or more, not {epoch}")
        self._epoch, self._taken, self._has_begun = epoch, frozenset(), False

    @property
    def sampler(self) -> Loader:
        """Itself: scripts say `loader.sampler.set_epoch(epoch)`."""
        return self

    def state_dict(self) -> dict[str, Any]:
        """Where this rank stands, in JSON values: the epoch, and what it has delivered of it. Each rank has its own."""
        job, taken = self._job, self._reader.taken(self._epoch) or self._taken
        rows = Taken(job.rank, job.size, taken).rows()
        return {"epoch": self._epoch, "taken": rows, "rank": job.rank, "size": job.size, "source": str(self.source)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state_dict` stood: the next iteration delivers what was not delivered of that epoch. Raises
        UsageError for the state of another rank, number of ranks, or source."""
        job = self._job
        try:
            own = (int(state["rank"]), int(state["size"]), str(state["source"]))
            taken = frozenset(expanded(state["taken"], job.rank, job.size))
            epoch = int(state["epoch"])
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"no state of a loader: {type(error).__name__}: {error}") from None
        if own != (job.rank, job.size, str(self.source)):
            raise UsageError(
                f"the state is of rank {own[0]} of {own[1]} reading {own[2]}; this is rank {job.rank} of {job.size} "
                f"reading {self.source}: epochs begin anew with another number of ranks (set_epoch)"
            )
        self._epoch, self._taken, self._has_begun = epoch, taken, False

    @property
    def counts(self) -> dict[str, int]:
        """Batches of all epochs so far that fill no round of all ranks (`left`), and that were made again because a
        server was lost (`again`, where the data plane knows it)."""
        counts = {"left": self._reader.left, "again": self._reader.again}
        return {name: count for name, count in counts.items() if count is not None}

    def close(self) -> None:
        """Ends the connections to the servers; a script that ends need not call it."""
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

    def _say_reading(self) -> None:
        """Informs the launcher, once."""
        if not self._has_said:
            inherited(environment()).send(rank.Reading(endless=False), limit_s=1.0)
            ScriptSteps.of_process(self._job)
            self._has_said = True

    def _noted(self, has_ids: bool) -> NotedLoader | None:
        steps = ScriptSteps.of_process(self._job)
        if steps is not None and self._notes is None:
            self._notes = steps.watch_loader(self._training, has_ids)
        return self._notes
