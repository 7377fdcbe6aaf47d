"""The feed: this rank's batches of one epoch after the other, with their ids, and how long each was waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import JobContext
from tfhet.errors import DataError
from tfhet.placement import Cut, Pipeline
from tfhet.service.epoch import epoch_dataset
from tfhet.service.transport import Transport
from tfhet.source import corruption

_EMPTY_PASSES = 20
"""So many passes in a row without an example for a rank, and there is none."""


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
    ):
        self.pipeline = pipeline
        self.cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
        self.first_batch_s: float | None = None
        """From the first request to the first batch."""
        self._job = job
        self._transport = transport
        self._clock = clock

    def epoch(self, epoch: int) -> Iterator[Delivery]:
        """This rank's share of one pass. Raises DataError, with file and offset, for a record that cannot be read."""
        began = self._clock.monotonic()
        dataset = epoch_dataset(self.pipeline, epoch, self._job, cut=self.cut, transport=self._transport)
        iterator = iter(dataset)
        while True:
            asked = self._clock.monotonic()
            try:
                element = next(iterator)
            except StopIteration:
                return
            except tf.errors.DataLossError as error:
                self._explain(error)
            now = self._clock.monotonic()
            if self.first_batch_s is None:
                self.first_batch_s = now - began
            yield Delivery(element["image"], element["label"], element["id"].numpy(), epoch, now - asked)

    def endless(self, epoch: int) -> Iterator[Delivery]:
        """Pass after pass, beginning with `epoch`."""
        empty = 0
        while empty < _EMPTY_PASSES:
            empty += 1
            for delivery in self.epoch(epoch):
                empty = 0
                yield delivery
            epoch += 1
        raise DataError(
            f"rank {self._job.rank} found no example in {empty} passes: write fewer files, none of them empty"
        )

    def _explain(self, error: tf.errors.DataLossError) -> NoReturn:
        files = getattr(self.pipeline.source, "files", ())
        try:
            found = corruption(files)
        except (OSError, tf.errors.OpError, DataError):
            found = None
        if found is None:
            raise DataError(f"a record cannot be read, in one of {len(files)} files: {error.message}") from None
        raise DataError(
            f"corrupt record in {found.file} at byte {found.offset}: {found.reason}; "
            "write the file again, or take it out of the channel",
            found.file,
            found.offset,
        ) from None
