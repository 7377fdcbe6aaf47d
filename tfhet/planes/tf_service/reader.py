"""The reader of a rank whose batches come from tf.data service.

An epoch is a data set of its own: registered, read by all ranks under one job, and gone. Registering one and reading
it to the end costs about 0.1 s (TF 2.15.1, loopback), and the end of the epoch is then the end of the sequence.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfhet.cluster import environment, resolve
from tfhet.messages import MessageError, ProcessChannel, inherited, rank
from tfhet.placement import Cut, Pipeline, Rest, local_part, remote_part
from tfhet.planes.local.reader import LocalReader
from tfhet.planes.tf_service.hangup import HangUp, addresses
from tfhet.planes.tf_service.order import Order
from tfhet.planes.tf_service.transport import Transport, is_registered
from tfhet.source.damage import said
from tfhet.strategies import JobContext

log = logging.getLogger("tfhet")

_SERVICE_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.ResourceExhaustedError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
WORKERS_S = 60.0
"""Seconds that a rank waits for the workers of the hosts that are left, after one was lost."""
_POLL_S = 0.05


@dataclass(frozen=True)
class EpochPart:
    """An epoch of a declared pipeline, or the rest of one, as a data set that workers serve."""

    pipeline: Pipeline
    epoch: int
    rest: Rest | None = None
    """Only what is left of the epoch; None: all of it."""
    number: int = 0
    """Number of the part within its epoch, each with its own `rest`."""
    cut: Cut | None = None
    """None: where an example is smallest."""

    def register(self, job_id: str, dispatcher: str, transport: Transport) -> None:
        """Registers it with the dispatcher at `dispatcher`. The first call counts."""
        transport.publish(dispatcher, self._remote(), self._id(job_id))

    def dataset(self, job_id: str, dispatcher: str, transport: Transport) -> tf.data.Dataset:
        """This rank's share, registered before. All ranks together see each example exactly once.

        Ranks get whole batches first come, first served, so their counts differ.
        """
        spec, name = self._remote().element_spec, self._id(job_id)
        served = transport.read(dispatcher, name, spec, f"{name}.job", "dynamic")
        return local_part(self.pipeline, served, self._cut)

    @property
    def _cut(self) -> Cut:
        return self.cut or Cut.smallest(self.pipeline)

    def _remote(self) -> tf.data.Dataset:
        return remote_part(self.pipeline, self.epoch, self._cut, rest=self.rest)

    def _id(self, job_id: str) -> str:
        pipeline = f"{self.pipeline.fingerprint()[:16]}.cut-{self._cut.position}"
        return f"{job_id}.train.{pipeline}.epoch-{self.epoch}.part-{self.number}"


@dataclass
class Generation:
    """Marks of one job at a dispatcher, by which its readers notice that it has been replaced.

    A dispatcher without memory would let a reader begin a data set anew that others have read a part of. So all readers
    make the same mark before they read, and none reads from a dispatcher without it.
    """

    dispatcher: str
    job_id: str
    transport: Transport
    number: int = 0
    """Number of the mark that counts; 0 before the first."""

    def renew(self) -> None:
        """Makes the next mark. All readers do so, and read after a barrier."""
        self.number += 1
        self.transport.publish(self.dispatcher, tf.data.Dataset.range(1), self._name)

    def stands(self) -> bool:
        """Whether the dispatcher has the mark. TensorFlow waits for one that is being started, without end, and the
        launcher that starts it ends the job when it cannot. Raises NotReady when it answers something else."""
        return is_registered(self.dispatcher, self._name)

    @property
    def _name(self) -> str:
        return f"{self.job_id}.generation-{self.number}"


class ServiceReader(LocalReader):
    """See `Reader`. After `go_local` it reads as a `LocalReader` does.

    channel: to the launcher, which reports the hosts that serve; None: the one that this process inherited.
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
        self._data_hosts = addresses(resolve(host, environment()) for host in self._order.data_hosts)
        self._generation = Generation(self._order.dispatcher, job.job_id, self._transport)

    @property
    def is_served(self) -> bool:
        return self._order is not None

    def agree(self) -> None:
        if self.is_served:
            self._generation.renew()

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        """See `Reader`. Once the dispatcher knows all workers, they have given up their work for an earlier dispatcher,
        which numbered it alike (TF 2.15.1). A worker that was just asking for a split still takes it from the new one
        and drops it; the audit finds it missing."""
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
        """The launcher's latest report of the hosts that serve; None before the first."""
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
        if not isinstance(error, _SERVICE_ERRORS):
            return False
        # A worker or the dispatcher was dying when it was asked; what this reader held is read again.
        log.warning("the data service failed, and is asked again: %s", said(error))
        # Without its frames, which hold the reader.
        self.failure = error.with_traceback(None)
        self.failure.__context__ = None
        return True

    def _part(self, epoch: int, rest: Rest | None, part: int) -> EpochPart:
        return EpochPart(self.pipeline, epoch, rest, part, self.cut)
