"""The rank's side of data planes: its batches of a declared pipeline, epoch by epoch, with the ids of their examples.

reader = planes.get("local").rank_side().reader(pipeline, job)
reader.offer(epoch)                      # on one rank
for delivery in reader.epoch(epoch):     # on every rank, after that
    train(delivery.images, delivery.labels)

`RankSide` and `Reader` are those of a plane whose ranks prepare their own share; another plane overrides what differs.
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
from tfhet.errors import DataError, UsageError
from tfhet.placement import Cut, Pipeline, Rest, inspect, one_by_one, one_epoch, preparation
from tfhet.planes import private
from tfhet.planes.ahead import Ahead
from tfhet.source import RECORD_ERRORS, BadRecord, diagnose, error_text, find
from tfhet.strategies import JobContext

LOOK_S = 60.0
"""Seconds that a rank looks for the record that ended its training."""
_POLL_S = 0.25
log = logging.getLogger("tfhet")


@dataclass(frozen=True)
class Delivery:
    """One batch and what is known about it."""

    images: tf.Tensor
    labels: tf.Tensor
    ids: np.ndarray
    """int64 [batch]: ids of the examples."""
    epoch: int
    """Pass over the data that the batch belongs to."""
    wait_s: float
    """Seconds that the step waited for it."""


class RankSide:
    """A data plane in the process of a rank."""

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> Reader:
        """A reader of a declared pipeline. Options: cut, compression, clock, on_first_batch."""
        options.pop("compression", None)  # nothing travels
        return Reader(pipeline, job, **options)

    def advice(self, pipeline: Pipeline, job: JobContext) -> str | None:
        """Advice that would make the plane deliver this pipeline better; None where there is none."""
        return None

    def plain(
        self, data: tf.data.Dataset, job: JobContext, ordinal: int, *, sharding: str, transport: Any
    ) -> tf.data.Dataset:
        """This rank's share of a plain data set. ordinal: the number of the data set in its script."""
        return _share(data, job) if job.size > 1 else data

    def called(
        self,
        make: Callable[..., Any],
        arguments: Mapping[str, Any],
        spec: Any,
        job: JobContext,
        training: bool,
    ) -> tf.data.Dataset | None:
        """This rank's share of the data sets that `make(shard, **arguments)` returns on the hosts that serve; None for
        a plane whose hosts do not call it, so that `plain` takes what it returns here. spec: of the elements."""
        return None

    def declared(
        self, pipeline: Pipeline, job: JobContext, ordinal: int, transport: Any, epoch: int | None = None
    ) -> tf.data.Dataset:
        """This rank's share of an epoch, or without end for None: elements with `image`, `label`, `id` and `epoch`."""
        return one_epoch(pipeline, epoch, (job.rank, job.size), job.threads)


class Reader:
    """Batches of one pipeline for one rank. A reader of served data overrides `is_served`, `dataset`, `go_local`, and
    what else differs in its plane. A plane that was restarted remembers nothing of earlier reads."""

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
        """Seconds from the first request to the first batch; None before it."""
        self.was_cut_off = False
        """Whether the last part of an epoch ended because the data plane was restarted."""
        self.failure: Exception | None = None
        """The last error of the data plane itself, for which the reader was cut off."""
        self._at = 0
        self._ahead: Ahead | None = None
        self._job, self._clock, self._on_first_batch = job, clock, on_first_batch

    @property
    def is_served(self) -> bool:
        """Whether other processes prepare the batches."""
        return False

    def agree(self) -> None:
        """Marks the data plane, so that a later restart is noticed, and gives up what was made ready. All ranks call
        it, and read after all have."""
        self.close()

    def stands(self) -> bool:
        """Whether the data plane is the one that was marked: what another one delivers may have been seen."""
        return True

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        """Whether any host still serves, once all that are left are ready, or `is_given_up` returns True."""
        return False

    def go_local(self) -> None:
        """From now on this rank prepares its share of the data itself."""

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        """Registers an epoch, or the `rest` of one, with the plane. Rank 0 calls it, which alone knows what was seen of
        it, and the others read after that: of what is offered while others read, a restart could serve a part twice."""

    def is_offered(self, epoch: int) -> bool:
        """Whether a rank has offered the whole `epoch`."""
        return True

    def ahead(self, epoch: int, offers: bool) -> None:
        """Makes a whole epoch ready in a thread while another one is read: its first batches wait when `epoch` begins.
        offers: whether this rank offers it. Any rank may call it, and none has to. When the epoch begins, after all
        ranks have met, it is looked whether the plane still `stands`: one that was restarted meanwhile is not read."""

        def work(ahead: Ahead) -> Iterator[Any]:
            if offers:
                self.offer(epoch)
                ahead.is_offered = True
            while not self.is_offered(epoch) and self.stands() and not ahead.ends.wait(_POLL_S):
                pass
            # A plane that was restarted may have got the offer. It numbers its readers anew: what is opened there would
            # come to a reader of the current epoch, too, which still asks by its old number (TF 2.15.1).
            is_over = ahead.ends.is_set() or not self.stands()
            iterator = iter(() if is_over else self.dataset(epoch, None, 0) or ())
            # Taking the first element, which has no example, begins the work on the others.
            return filter(_holds_examples, itertools.chain([next(iterator)], iterator))

        self.close()
        self._ahead = Ahead(epoch, work)

    def has_offered_ahead(self, epoch: int) -> bool:
        """Whether `ahead` has offered the whole `epoch` already; waits while it does."""
        return self._ahead is not None and self._ahead.epoch == epoch and self._ahead.has_offered()

    def close(self) -> None:
        """Gives up the epoch that was made ready, if there is one."""
        if self._ahead is not None:
            with self.giving_up():
                self._ahead.end()
            self._ahead = None

    def epoch(self, epoch: int, rest: Rest | None = None, part: int = 0) -> Iterator[Delivery]:
        """This rank's share of one pass, or of the `rest` of it, its `part`-th part; offered before. Ends early, with
        `was_cut_off`, when the plane is restarted. Raises DataError, with file and offset, for a bad record."""
        began = self._clock.monotonic()
        self.was_cut_off, self._at = False, epoch
        ahead, iterator = self._ahead, None
        try:
            if ahead is not None and ahead.epoch == epoch and rest is None and part == 0:
                self._ahead, iterator = None, ahead.taken()
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
        """This rank's share of the examples `ids`, int64 [n], each prepared by itself; only bad ones are left out."""
        mine = ids[self._job.rank :: self._job.size]
        dataset = one_by_one(self.pipeline, epoch, mine, self._job.threads) if mine.size else ()
        asked = self._clock.monotonic()
        for element in dataset:
            now = self._clock.monotonic()
            yield Delivery(element["image"], element["label"], element["id"].numpy(), epoch, now - asked)
            asked = self._clock.monotonic()

    def diagnose(self, epoch: int, ids: np.ndarray) -> list[BadRecord]:
        """The bad records among these examples, with what is wrong with each."""
        return diagnose(self.pipeline.source, ids, len(ids), preparation(self.pipeline, epoch))

    def dataset(self, epoch: int, rest: Rest | None, part: int) -> Iterable[Mapping[str, tf.Tensor]] | None:
        """This rank's share, as elements with `image`, `label` and `id`, of which those without an example are passed
        over; None: the reader is cut off. Here rank r's share is the splits r, r + size, ... of the epoch's order."""
        job = self._job
        return one_epoch(self.pipeline, epoch, (job.rank, job.size), job.threads, rest, begun=True)

    def giving_up(self) -> contextlib.AbstractContextManager[Any]:
        """Context within which a data set that was not read to its end is destroyed."""
        return contextlib.nullcontext()

    def cut_off_by(self, error: Exception) -> bool:
        """Whether an error of TensorFlow means that the reader was cut off, rather than that the data are bad."""
        return False

    def _explain(self, error: Exception) -> None:
        """Returns when the reader was cut off, and raises what is wrong with the data otherwise."""
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
                "--on_bad_record skip passes over such records"
            ) from None
        raise DataError(
            f"bad record in {found}; write it again, take it out of the channel, or give --on_bad_record skip",
            found.file,
            found.offset,
        ) from None


def _holds_examples(element: Mapping[str, tf.Tensor]) -> bool:
    return bool(element["id"].shape[0])


def _share(data: tf.data.Dataset, job: JobContext) -> tf.data.Dataset:
    """The files, or the elements, that belong to this rank."""
    found = inspect(data)
    if found.unseeded_shuffle and not found.reads_files:
        log.warning(
            "%s: each rank shuffles for itself and takes every %d-th batch of its own order, so ranks see some "
            "examples twice and miss others in a pass; give shuffle() a seed, or read from files",
            job.host,
            job.size,
        )
    enough = found.splits is not None and found.splits >= job.size
    by_file = found.reads_files and enough and not found.asserts_cardinality
    options, policy = tf.data.Options(), tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.FILE if by_file else policy.DATA
    return private.auto_shard(data.with_options(options), job.size, job.rank)
