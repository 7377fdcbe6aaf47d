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
from tfhet.planes.feed.alone import AloneReader
from tfhet.planes.feed.frame import examples_in
from tfhet.planes.feed.host_news import HostNews
from tfhet.planes.feed.order import Order
from tfhet.planes.feed.reader import AHEAD, FeedReader
from tfhet.planes.feed.share import compact, expanded
from tfhet.planes.feed.source import FeedSource
from tfhet.planes.feed.work import MAKE_LIMIT_S
from tfhet.planes.key import key_from
from tfhet.steps import Note, NotedLoader, ScriptSteps
from tfhet.strategies import LOCAL_PLANE, JobContext

PLANE = "feed"
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
        ahead: int = AHEAD,
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
        if job.plane not in (PLANE, LOCAL_PLANE):
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
        self._says_examples = True

    def __iter__(self) -> Iterator[Any]:
        """An epoch, from its beginning or, the first time after `load_state_dict`, from where that stood."""
        if self._has_begun:  # the last iteration was left early, as by break
            self._epoch, self._taken = self._epoch + 1, frozenset()
        epoch, taken, noted = self._epoch, self._taken, self._noted
        self._taken, self._has_begun = frozenset(), True
        received = self._reader.epoch(epoch, taken, goes_on=self._training)
        for index in itertools.count():
            asked_s = SYSTEM.monotonic()
            found = next(received, None)
            now_s = SYSTEM.monotonic()
            if found is None:
                break
            batch, ids = self._convert(found.batch), found.ids
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
        rows = compact(taken, job.rank, job.size)
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
        server was lost (`again`)."""
        return {"left": self._reader.left, "again": self._reader.again}

    def close(self) -> None:
        """Ends the connections to the servers; a script that ends need not call it."""
        if "_reader" in vars(self):
            self._reader.close()

    @functools.cached_property
    def _batches(self) -> int:
        return self._reader.batches()

    @functools.cached_property
    def _reader(self) -> FeedReader | AloneReader:
        job = self._job
        given: dict[str, Any] = {"rank": job.rank, "size": job.size, "seed": job.seed, "is_equal": self._training}
        order = None if job.plane == LOCAL_PLANE else Order.parse(job.order)
        if order is None or not order.servers:
            return AloneReader(self.source, **given)
        given |= {"encrypted": order.encrypted, "ahead": self._ahead, "allocate": self._allocate, "say": _say}
        given |= {"hosts": order.hosts, "make_limit_s": self._make_limit_s}
        reader = FeedReader(order.servers, key_from(environment()), self.source, **given)
        _host_news().pass_to(reader.serve_only)
        return reader

    @functools.cached_property
    def _noted(self) -> NotedLoader | None:
        if not self._is_noted:
            return None
        inherited(environment()).send(rank.to_json(rank.Reading(endless=False)), limit_s=1.0)
        steps = ScriptSteps.of_process(self._job)
        return None if steps is None else steps.watch_loader(self._training, bool(self.source.batch_size))


@functools.cache
def _host_news() -> HostNews:
    """Of this process."""
    return HostNews(inherited(environment()))


def _say(line: str) -> None:
    print(line, flush=True)
