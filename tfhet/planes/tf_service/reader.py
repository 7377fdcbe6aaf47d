"""The reader of a rank whose batches come from tf.data service."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from tfhet.cluster import environment, resolve
from tfhet.messages import MessageError, ProcessChannel, inherited, rank
from tfhet.placement import Pipeline, Rest
from tfhet.planes.local.reader import LocalReader
from tfhet.planes.tf_service.epoch import EpochPart
from tfhet.planes.tf_service.generation import Generation
from tfhet.planes.tf_service.hangup import HangUp, addresses
from tfhet.planes.tf_service.order import Order
from tfhet.planes.tf_service.transport import Transport
from tfhet.source import error_text
from tfhet.strategies import JobContext

log = logging.getLogger("tfhet")

_OF_THE_SERVICE = (
    tf.errors.UnavailableError,
    tf.errors.ResourceExhaustedError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
WORKERS_S = 60.0
"""How long a rank waits for the workers of the hosts that are left, after one was lost."""
_POLL_S = 0.05


class ServiceReader(LocalReader):
    """See `Reader`. After `go_local` it reads as a `LocalReader` does.

    channel: to the launcher, which says who serves; that of this process otherwise.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        job: JobContext,
        *,
        transport: Transport | None = None,
        channel: ProcessChannel | None = None,
        **options: Any,
    ):
        super().__init__(pipeline, job, **options)
        self._channel = channel or inherited(environment())
        self._serving: rank.ServingHosts | None = None
        self._order: Order | None = Order.parse(job.order)
        self._transport = transport or Transport()
        names = [resolve(host, environment()) for host in self._order.data_hosts]
        self._data_hosts = addresses(names)
        self._generation = Generation(self._order.dispatcher, job.job_id, self._transport)

    @property
    def is_served(self) -> bool:
        return self._order is not None

    def agree(self) -> None:
        if self.is_served:
            self._generation.renew()

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        """See `Reader`. By the time that all workers are known to the dispatcher they have given up what they did for
        an earlier one, which counted its work by the same numbers (TF 2.15.1). A worker that was asking for a split
        just then still takes it from the new one, for nothing; the audit finds it missing."""
        if not self.is_served:
            return False
        end_s = self._clock.monotonic() + WORKERS_S
        while (found := self._newest()) is not None and not found.is_complete:
            if self._clock.monotonic() > end_s or is_given_up():
                break
            self._clock.sleep(_POLL_S)
        return found is None or bool(found.hosts)

    def go_local(self) -> None:
        self._order = None

    def offer(self, epoch: int, rest: Rest | None = None, part: int = 0) -> None:
        if self._order is not None:
            self._part(epoch, rest, part).register(self._job.job_id, self._order.dispatcher, self._transport)

    def _newest(self) -> rank.ServingHosts | None:
        """What the launcher said last of the hosts that serve; None before it has."""
        while (values := self._channel.receive()) is not None:
            with contextlib.suppress(MessageError):  # of a later version
                self._serving = rank.parse_order(values)
        return self._serving

    def dataset(self, epoch: int, rest: Rest | None, part: int) -> Iterable[Mapping[str, tf.Tensor]] | None:
        if self._order is None:
            return super().dataset(epoch, rest, part)
        found = self._part(epoch, rest, part).dataset(self._job.job_id, self._order.dispatcher, self._transport)
        return found if self._generation.stands() else None

    def giving_up(self) -> contextlib.AbstractContextManager[Any]:
        return HangUp(self._data_hosts)  # a worker of a lost host may never answer

    def cut_off_by(self, error: Exception) -> bool:
        if not self.is_served:
            return False
        if not self._generation.stands():
            return True
        if not isinstance(error, _OF_THE_SERVICE):
            return False
        # A worker or the dispatcher was dying when it was asked; what this reader held is read again.
        log.warning("the data service failed, and is asked again: %s", error_text(error))
        # Without its frames, which hold the reader.
        self.failure = error.with_traceback(None)
        self.failure.__context__ = None
        return True

    def _part(self, epoch: int, rest: Rest | None, part: int) -> EpochPart:
        return EpochPart(self.pipeline, epoch, rest, part, self.cut)
