"""The rank's side of data planes: the batches of a declared pipeline, by epochs, with the ids of the examples.

reader = planes.get("local").rank_side().reader(pipeline, job)
reader.offer(epoch)                      # on one rank
for delivery in reader.epoch(epoch):     # on every rank, after that
    train(delivery.images, delivery.labels)

`RankSide` and `Reader` are of a plane whose ranks prepare their own share; other planes override their methods.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.datasets import inspect, share_of
from tfhet.errors import DataError, UsageError
from tfhet.pipeline import Cut, Pipeline, Rest, one_by_one, one_epoch, preparation
from tfhet.planes import private
from tfhet.planes.ahead import Prefetcher
from tfhet.source import RECORD_ERRORS, BadRecord, diagnose, error_text, find
from tfhet.strategies import JobContext

LOOK_S = 60.0
"""Limit in seconds for the search for a bad record."""
_POLL_S = 0.25
log = logging.getLogger("tfhet")


@dataclass(frozen=True)
class Delivery:
    """A batch with its ids, epoch and wait."""

    images: tf.Tensor
    labels: tf.Tensor
    ids: np.ndarray
    """int64 [batch]: ids of the examples."""
    epoch: int
    """Pass over the data that the batch belongs to."""
    wait_s: float
    """Seconds that the step waited for the batch."""


class RankSide:
    """A data plane in the process of a rank."""

    repeats_by_pass = False
    """Whether a share must be repeated instead of its data: workers that repeat shared data prepare different passes at
    the same time."""

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> Reader:
        """Returns a reader of a declared pipeline. Options: cut, compression, clock, on_first_batch."""
        options.pop("compression", None)  # nothing is sent
        return Reader(pipeline, job, **options)

    def advice(self, pipeline: Pipeline, job: JobContext) -> str | None:
        """Returns advice for this pipeline on this plane; None if there is none."""
        return None

    def plain(
        self, data: tf.data.Dataset, job: JobContext, ordinal: int, *, sharding: str, transport: Any, own: str = ""
    ) -> tf.data.Dataset:
        """Returns this rank's share of a plain data set. ordinal: index of the data set in its script. own: a name,
        unique in this ordinal, of a data set all of which is for this rank."""
        return data if own or job.size == 1 else _share(data, job)

    def called(
        self, make: Callable[..., Any], arguments: Mapping[str, Any], spec: Any, job: JobContext, training: bool
    ) -> tf.data.Dataset | None:
        """Returns this rank's share of the data sets that `make(shard, **arguments)` returns on the serving hosts; None
        if the plane's hosts cannot call it, so that `plain` gets its data set. spec: of the elements."""
        return None

    def declared(
        self,
        pipeline: Pipeline,
        job: JobContext,
        ordinal: int,
        transport: Any,
        epoch: int | None = None,
        rest: Rest | None = None,
    ) -> tf.data.Dataset:
        """Returns this rank's share of an epoch, endless for None: elements with `image`, `label`, `id` and `epoch`.
        rest: the examples of the share; None: the plane chooses them."""
        return one_epoch(pipeline, epoch, (job.rank, job.size) if rest is None else (0, 1), job.threads, rest)


class Reader:
    """Batches of one pipeline for one rank. A reader of served data overrides `is_served`, `dataset`, `go_local` and
    others. A restarted plane remembers nothing of earlier reads."""

    def __init__(
        self,
        pipeline: Pipeline,
        job: JobContext,
        *,
        cut: Cut | None = None,
        clock: Clock = SYSTEM,
        on_first_batch: Callable[[float], None] = lambda after_s: None,
    ):
        """on_first_batch: called once, with `first_batch_s`. Raises UsageError for a pipeline that repeats."""
        if pipeline.repeat != 1:
            raise UsageError(f"pipeline with repeat={pipeline.repeat}: the trainer counts its epochs itself (--epochs)")
        self.pipeline = pipeline
        self.cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
        self.first_batch_s: float | None = None
        """Seconds from the first request to the first batch; None before the first batch."""
        self.was_cut_off = False
        """Whether the last part of an epoch ended because the data plane was restarted."""
        self.failure: Exception | None = None
        """The last error of the data plane that cut the reader off."""
        self._at = 0
        self._ahead: Prefetcher | None = None
        self._job, self._clock, self._on_first_batch = job, clock, on_first_batch

    @property
    def is_served(self) -> bool:
        """Whether other processes prepare the batches."""
        return False

    def agree(self) -> None:
        """Marks the data plane, to notice restarts, and drops the prefetched epoch. All ranks call it before reads."""
        self.close()

    def stands(self) -> bool:
        """Whether the data plane is still the marked one; a restarted one may repeat examples."""
        return True

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        """Waits until all remaining hosts are ready or `is_given_up` returns True. Returns whether any host serves."""
        return False

    def go_local(self) -> None:
        """Makes this rank prepare its own share of the data from now on."""

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        """Registers an epoch, or its `rest`, with the plane. Rank 0 calls it before the other ranks read."""

    def is_offered(self, epoch: int) -> bool:
        """Whether a rank has offered the whole `epoch`."""
        return True

    def ahead(self, epoch: int, offers: bool) -> None:
        """Prefetches an epoch in a thread; dropped if the plane no longer `stands`. offers: whether this rank does."""

        def work(ahead: Prefetcher) -> Iterator[Any]:
            if offers:
                self.offer(epoch)
                ahead.is_offered = True
            while not self.is_offered(epoch) and self.stands() and not ahead.ends.wait(_POLL_S):
                pass
            # A restarted plane reuses numbers: readers of the current epoch would get these batches (TF 2.15.1).
            is_over = ahead.ends.is_set() or not self.stands()
            iterator = iter(() if is_over else self.dataset(epoch, None, 0) or ())
            # Reading the first element, which has no example, starts the work on the others.
            return filter(_holds_examples, itertools.chain([next(iterator)], iterator))

        self.close()
        self._ahead = Prefetcher(epoch, work)

    def has_offered_ahead(self, epoch: int) -> bool:
        """Waits for `ahead` and returns whether it has offered the whole `epoch`."""
        return self._ahead is not None and self._ahead.epoch == epoch and self._ahead.has_offered()

    def close(self) -> None:
        """Drops the prefetched epoch, if there is one."""
        if self._ahead is not None:
            with self.giving_up():
                self._ahead.end()
            self._ahead = None

    def epoch(self, epoch: int, rest: Rest | None = None, part: int = 0) -> Iterator[Delivery]:
        """Yields this rank's share of an offered epoch, or of its `rest`, its `part`-th part. Ends early, with
        `was_cut_off`, if the plane is restarted. Raises DataError, with file and offset, for a bad record."""
        began = self._clock.monotonic()
        self.was_cut_off, self._at = False, epoch
        ahead, iterator = self._ahead, None
        try:
            if ahead is not None and ahead.epoch == epoch and rest is None and part == 0:
                self._ahead, iterator = None, ahead.result()
            dataset = self.dataset(epoch, rest, part) if iterator is None else None
            if not self.stands():
                iterator = None
            elif dataset is not None:
                iterator = filter(_holds_examples, dataset)
        except tf.errors.OpError as error:
            self._explain(error)
            return
        if iterator is None:
            self.was_cut_off = True
            return
        is_read = False
        try:
            while True:
                asked = self._clock.monotonic()
                try:
                    element = next(iterator)
                except StopIteration:
                    is_read = True
                    return
                except RECORD_ERRORS as error:
                    self._explain(error)
                    return
                now = self._clock.monotonic()
                if self.first_batch_s is None:
                    self.first_batch_s = now - began
                    self._on_first_batch(self.first_batch_s)
                yield Delivery(element["image"], element["label"], element["id"].numpy(), epoch, now - asked)
        finally:
            if not is_read:
                with self.giving_up():
                    del iterator

    def singly(self, epoch: int, ids: np.ndarray) -> Iterator[Delivery]:
        """Yields this rank's share of the examples `ids`, int64 [n], each prepared alone; bad examples are skipped."""
        mine = ids[self._job.rank :: self._job.size]
        dataset = one_by_one(self.pipeline, epoch, mine, self._job.threads) if mine.size else ()
        asked = self._clock.monotonic()
        for element in dataset:
            now = self._clock.monotonic()
            yield Delivery(element["image"], element["label"], element["id"].numpy(), epoch, now - asked)
            asked = self._clock.monotonic()

    def diagnose(self, epoch: int, ids: np.ndarray) -> list[BadRecord]:
        """Returns the bad records among these examples, with their errors."""
        return diagnose(self.pipeline.source, ids, len(ids), preparation(self.pipeline, epoch))

    def dataset(self, epoch: int, rest: Rest | None, part: int) -> Iterable[Mapping[str, tf.Tensor]] | None:
        """Returns this rank's share as elements with `image`, `label` and `id`; elements without an example are
        skipped. None: the reader is cut off. Here rank r's share is the splits r, r + size, ... of the order."""
        job = self._job
        return one_epoch(self.pipeline, epoch, (job.rank, job.size), job.threads, rest, begun=True)

    def giving_up(self) -> contextlib.AbstractContextManager[Any]:
        """Context in which an unfinished data set is destroyed."""
        return contextlib.nullcontext()

    def cut_off_by(self, error: Exception) -> bool:
        """Whether an error of TensorFlow means that the reader was cut off; otherwise the data are bad."""
        return False

    def _explain(self, error: Exception) -> None:
        """Returns if the reader was cut off; otherwise raises the error of the data."""
        if self.cut_off_by(error):
            self.was_cut_off = True
            return
        if not isinstance(error, (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError)):
            raise error
        print("[tfhet] a record cannot be read; looking for it", flush=True)
        found = find(self.pipeline.source, preparation(self.pipeline, self._at), LOOK_S)
        if found is None:
            raise DataError(
                f"a record cannot be read, and it was not found in {LOOK_S:g} s: {error_text(error)}; "
                "skip bad records with --on_bad_record skip"
            ) from None
        raise DataError(
            f"bad record in {found}; write it again, remove it from the channel, or skip it with --on_bad_record skip",
            found.file,
            found.offset,
        ) from None


def _holds_examples(element: Mapping[str, tf.Tensor]) -> bool:
    return bool(element["id"].shape[0])


def _share(data: tf.data.Dataset, job: JobContext) -> tf.data.Dataset:
    """Returns the files or the examples of this rank; every n-th batch, if these are not known in advance."""
    found = inspect(data)
    if not found.python_functions:
        try:
            return share_of(data, job.size, job.rank, for_training=True)
        except UsageError:
            if found.unseeded_shuffle:
                raise
    elif found.unseeded_shuffle:
        raise UsageError(
            "each rank shuffles alone, so that ranks see some examples twice and miss others: give shuffle() a seed"
        )
    options, policy = tf.data.Options(), tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.DATA
    return private.auto_shard(data.with_options(options), job.size, job.rank)
