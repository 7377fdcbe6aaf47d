"""The reader of a rank that prepares its own share of the data; readers of served data build on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import DataError, UsageError
from tfhet.placement import Cut, Pipeline, Rest, one_by_one, one_epoch, preparation
from tfhet.planes.local.threads import threads_per_rank
from tfhet.planes.reader import Delivery
from tfhet.source import RECORD_ERRORS, BadRecord, diagnose, error_text, find
from tfhet.strategies import JobContext

LOOK_S = 60.0
"""How long a rank looks for the record that ended its training."""


class LocalReader:
    """See `Reader`. A reader of served data overrides `is_served`, `dataset` and what else differs in its plane."""

    def __init__(
        self,
        pipeline: Pipeline,
        job: JobContext,
        *,
        cut: Cut | None = None,
        clock: Clock = SYSTEM,
        on_first_batch: Callable[[float], None] = lambda after_s: None,
    ):
        """on_first_batch: called once, with the seconds from the first request to the first batch."""
        self.pipeline = pipeline
        self.cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
        self.first_batch_s: float | None = None
        self.was_cut_off = False
        self.failure: Exception | None = None
        self._at = 0
        self._job = job
        self._clock = clock
        self._on_first_batch = on_first_batch

    @property
    def is_served(self) -> bool:
        return False

    def agree(self) -> None:
        return None

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        return False

    def go_local(self) -> None:
        return None

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        return None

    def epoch(self, epoch: int, rest: Rest | None = None, part: int = 0) -> Iterator[Delivery]:
        began = self._clock.monotonic()
        self.was_cut_off, self._at = False, epoch
        try:
            dataset = self.dataset(epoch, rest, part)
            if dataset is None:
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
        mine = ids[self._job.rank :: self._job.size]
        dataset = one_by_one(self.pipeline, epoch, mine, threads_per_rank(self._job)) if mine.size else ()
        asked = self._clock.monotonic()
        for element in dataset:
            now = self._clock.monotonic()
            yield Delivery(element["image"], element["label"], element["id"].numpy(), epoch, now - asked)
            asked = self._clock.monotonic()

    def diagnose(self, epoch: int, ids: np.ndarray) -> list[BadRecord]:
        return diagnose(self.pipeline.source, ids, len(ids), preparation(self.pipeline, epoch))

    def dataset(self, epoch: int, rest: Rest | None, part: int) -> Iterable[Mapping[str, tf.Tensor]] | None:
        """This rank's share, as elements with `image`, `label` and `id`; None: the reader is cut off. Here the share of
        rank r is the splits r, r + size, ... of the epoch's order.

        Raises UsageError for a pipeline that repeats.
        """
        check_one_pass(self.pipeline)
        job = self._job
        return one_epoch(self.pipeline, epoch, (job.rank, job.size), threads_per_rank(job), rest)

    def giving_up(self) -> contextlib.AbstractContextManager[Any]:
        """A context that is entered while a data set that was not read to its end is destroyed."""
        return contextlib.nullcontext()

    def cut_off_by(self, error: Exception) -> bool:
        """Whether an error of TensorFlow's means that the reader was cut off, and not that the data are bad."""
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


def check_one_pass(pipeline: Pipeline) -> None:
    """Raises UsageError for a pipeline that repeats: the trainer counts its epochs itself."""
    if pipeline.repeat != 1:
        raise UsageError(f"a pipeline with repeat={pipeline.repeat}: the trainer counts its epochs itself (--epochs)")
