"""The feed: this rank's batches of one epoch after the other, with their ids, and how long each was waited for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import JobContext, environment, resolve
from tfhet.errors import DataError
from tfhet.placement import Cut, Pipeline, Rest, one_by_one, preparation
from tfhet.planes.tf_service.epoch import EpochPart, threads_per_rank
from tfhet.planes.tf_service.generation import Generation
from tfhet.planes.tf_service.hangup import HangUp, addresses
from tfhet.planes.tf_service.transport import Transport
from tfhet.source import BadRecord, diagnose, find
from tfhet.source.damage import ERRORS, said

log = logging.getLogger("tfhet")

_OF_THE_SERVICE = (
    tf.errors.UnavailableError,
    tf.errors.ResourceExhaustedError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
LOOK_S = 60.0
"""How long a rank looks for the record that ended its training."""


@dataclass(frozen=True)
class Delivery:
    """One batch and what is known about it."""

    images: tf.Tensor
    labels: tf.Tensor
    ids: np.ndarray
    """int64 [batch]"""
    epoch: int
    """Pass over the data that the batch belongs to."""
    wait_s: float
    """How long the step waited for it."""


class Feed:
    """Batches of a pipeline for this rank."""

    def __init__(
        self,
        pipeline: Pipeline,
        job: JobContext,
        *,
        cut: Cut | None = None,
        transport: Transport | None = None,
        clock: Clock = SYSTEM,
        on_first_batch: Callable[[float], None] = lambda after_s: None,
    ):
        """on_first_batch: told once, with the seconds from the first request to the first batch."""
        self.pipeline = pipeline
        self.cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
        self.first_batch_s: float | None = None
        """From the first request to the first batch."""
        self.was_cut_off = False
        """Whether the last part of an epoch ended because the dispatcher no longer knew this reader."""
        self.failure: Exception | None = None
        """The last error of the data service itself, for which the reader was cut off."""
        self._at = 0
        self._job = job
        self._transport = transport or Transport()
        self._clock = clock
        self._on_first_batch = on_first_batch
        names = [resolve(host, environment()) for host in job.data_hosts] if job.is_served else []
        self._data_hosts = addresses(names)
        self._generation = (
            Generation(job.dispatcher, job.job_id, self._transport) if job.dispatcher is not None else None
        )

    @property
    def is_served(self) -> bool:
        """Whether batches come from the data service."""
        return self._job.is_served

    def agree(self) -> None:
        """Makes the mark that tells the dispatcher from a later one. All ranks do, and read after all have."""
        if self._generation is not None:
            self._generation.renew()

    def go_local(self) -> None:
        """From now on this rank prepares its share of the data itself."""
        self._job = replace(self._job, dispatcher=None)
        self._generation = None

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        """Makes an epoch, or the `rest` of one, known to the data service. One rank does it, and the others read after
        that: a rank that registers what others read already could hand it out again by another dispatcher."""
        self._part(epoch, rest, part).register(self._job, self._transport)

    def epoch(self, epoch: int, rest: Rest | None = None, part: int = 0) -> Iterator[Delivery]:
        """This rank's share of one pass, or of the `rest` of it, which is its `part`-th part; offered before. Ends
        early, with `was_cut_off`, when the data service begins anew. Raises DataError, with file and offset, for a
        record that cannot be read."""
        began = self._clock.monotonic()
        self.was_cut_off, self._at = False, epoch
        try:
            dataset = self._part(epoch, rest, part).dataset(self._job, self._transport)
            if self._generation is not None and not self._generation.stands():
                self.was_cut_off = True
                return
            iterator = iter(dataset)
        except tf.errors.OpError as error:
            self._explain(error)
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
                except ERRORS as error:
                    self._explain(error)
                    return
                now = self._clock.monotonic()
                if self.first_batch_s is None:
                    self.first_batch_s = now - began
                    self._on_first_batch(self.first_batch_s)
                yield Delivery(element["image"], element["label"], element["id"].numpy(), epoch, now - asked)
        finally:
            if not is_read:
                with HangUp(self._data_hosts):  # a worker of a lost host may never answer
                    del iterator

    def _part(self, epoch: int, rest: Rest | None, part: int) -> EpochPart:
        return EpochPart(self.pipeline, epoch, rest, part, self.cut)

    def singly(self, epoch: int, ids: np.ndarray) -> Iterator[Delivery]:
        """This rank's share of the examples `ids`, int64 [n], each read and prepared by itself, so that a bad one takes
        no other with it; bad ones are left out."""
        mine = ids[self._job.rank :: self._job.size]
        dataset = one_by_one(self.pipeline, epoch, mine, threads_per_rank(self._job)) if mine.size else ()
        asked = self._clock.monotonic()
        for element in dataset:
            now = self._clock.monotonic()
            yield Delivery(element["image"], element["label"], element["id"].numpy(), epoch, now - asked)
            asked = self._clock.monotonic()

    def diagnose(self, epoch: int, ids: np.ndarray) -> list[BadRecord]:
        """What is wrong with the records of these examples."""
        return diagnose(self.pipeline.source, ids, len(ids), preparation(self.pipeline, epoch))

    def _explain(self, error: Exception) -> None:
        """Returns when the reader was cut off, and raises what is wrong with the data otherwise."""
        if self._generation is not None and not self._generation.stands():
            self.was_cut_off = True
            return
        if isinstance(error, _OF_THE_SERVICE) and self.is_served:
            # A worker or the dispatcher was dying when it was asked; what this reader held is read again.
            log.warning("the data service failed, and is asked again: %s", said(error))
            # Without its frames, which hold the reader.
            self.was_cut_off, self.failure = True, error.with_traceback(None)
            self.failure.__context__ = None
            return
        if not isinstance(error, (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError)):
            raise error
        print("[tfhet] a record cannot be read; looking for it", flush=True)
        found = find(self.pipeline.source, preparation(self.pipeline, self._at), LOOK_S)
        if found is None:
            raise DataError(
                f"a record cannot be read, and it was not found in {LOOK_S:g} s: {said(error)}; --on_bad_record skip "
                "leaves such records out"
            ) from None
        raise DataError(
            f"bad record in {found}; write it again, take it out of the channel, or say --on_bad_record skip",
            found.file,
            found.offset,
        ) from None
