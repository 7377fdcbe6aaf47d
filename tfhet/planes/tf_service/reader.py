"""tf.data service in a rank: its reader, and its share of a data set that workers prepare.

An epoch is a data set of its own: registered, read by all ranks under one job, and gone. Registering one and reading
it to the end costs about 0.1 s (TF 2.15.1, loopback), and the end of the epoch is then the end of the sequence.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from tfhet.cluster import environment, resolve
from tfhet.datasets import Inspection, check_elements, divisible, inspect
from tfhet.errors import UsageError, check_known
from tfhet.messages import ProcessChannel, inherited, rank
from tfhet.pipeline import Cut, Pipeline, Rest, local_part, remote_part, without_autotune
from tfhet.planes.reader import RankSide, Reader
from tfhet.planes.tf_service.settings import Order
from tfhet.planes.tf_service.transport import Transport, is_registered
from tfhet.planes.tf_service.wire import Wire, leave_at_exit, of_rank
from tfhet.source import error_text
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
SPLITS_PER_WORKER = 4
"""With fewer splits than this for each worker, workers idle at the end of an epoch."""


class ServiceRankSide(RankSide):
    repeats_by_pass = True

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> ServiceReader:
        compression = options.pop("compression", "none")
        transport = Transport(compression="AUTO" if compression == "snappy" else None)
        return ServiceReader(pipeline, job, **{"transport": transport, **options})

    def advice(self, pipeline: Pipeline, job: JobContext) -> str | None:
        return sharing_advice(pipeline, Order.parse(job.order).workers)

    def plain(
        self,
        data: tf.data.Dataset,
        job: JobContext,
        ordinal: int,
        *,
        sharding: str,
        transport: Transport | None,
        own: str = "",
    ) -> tf.data.Dataset:
        order = Order.parse(job.order)
        sharding = _sharding(inspect(data), sharding, order.workers)
        check_elements(data.element_spec)
        if sharding == "dynamic":
            data = divisible(data, job.size)
        spec_hash = hashlib.sha256(repr(data.element_spec).encode()).hexdigest()[:12]
        dataset_id = f"{job.job_id}.plain-{ordinal}.{spec_hash}" + f".{own}.rank-{job.rank}" * bool(own)
        served = _served(data, dataset_id, job, order, transport or Transport(), sharding, bool(own))
        return without_autotune(served.prefetch(2))

    def declared(
        self,
        pipeline: Pipeline,
        job: JobContext,
        ordinal: int,
        transport: Transport | None,
        epoch: int | None = None,
        rest: Rest | None = None,
    ) -> tf.data.Dataset:
        cut, is_own = Cut.smallest(pipeline), rest is not None
        dataset_id = f"{job.job_id}.pipeline-{ordinal}.{pipeline.fingerprint()[:16]}" + f".rank-{job.rank}" * is_own
        remote, order = remote_part(pipeline, epoch, cut, rest=rest), Order.parse(job.order)
        served = _served(remote, dataset_id, job, order, transport or Transport(), "dynamic", is_own)
        return local_part(pipeline, served, cut)


class ServiceReader(Reader):
    """See `Reader`. channel: to the launcher; None: the one that this process inherited."""

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
        self._wire = _wire(job, self._order)
        self.generation = 0
        """Number of the mark that counts; 0 before the first."""

    @property
    def is_served(self) -> bool:
        return self._order is not None

    def agree(self) -> None:
        super().agree()
        if self._order is not None:
            self.generation += 1
            self._transport.publish(self._wire, self._order.dispatcher, tf.data.Dataset.range(1), self._mark)

    def stands(self) -> bool:
        """Whether the dispatcher has the mark of this generation; one without memory would repeat what others have
        read. Waits for a dispatcher that is being started. Raises NotReady for another answer."""
        return self._order is None or is_registered(self._wire, self._order.dispatcher, self._mark)

    @property
    def _mark(self) -> str:
        return f"{self._job.job_id}.generation-{self.generation}"

    def has_servers(self, is_given_up: Callable[[], bool]) -> bool:
        """See `Reader`."""
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
            self._transport.publish(
                self._wire, self._order.dispatcher, self._remote(epoch, rest), self._dataset_id(epoch, part)
            )

    def is_offered(self, epoch: int) -> bool:
        return self._order is None or is_registered(self._wire, self._order.dispatcher, self._dataset_id(epoch, 0))

    def _newest(self) -> rank.ServingHosts | None:
        while (order := self._channel.receive(0.0, rank.ServingHosts)) is not None:
            self._serving = order
        return self._serving

    def dataset(self, epoch: int, rest: Rest | None, part: int) -> Iterable[Mapping[str, tf.Tensor]] | None:
        if self._order is None:
            return super().dataset(epoch, rest, part)
        spec = self._spec if rest is None else self._remote(epoch, rest).element_spec
        served = self._transport.read(
            self._wire, self._order.dispatcher, self._dataset_id(epoch, part), spec, "dynamic"
        )
        return local_part(self.pipeline, served, self.cut, begun=True)

    def giving_up(self) -> contextlib.AbstractContextManager[Any]:
        return self._wire.hang_up()  # a worker of a lost host may never answer

    def cut_off_by(self, error: Exception) -> bool:
        if not self.is_served:
            return False
        if not self.stands():
            return True
        if not isinstance(error, _SERVICE_ERRORS) and "Iteration id" not in str(error):  # of an earlier dispatcher
            return False
        log.warning("the data service failed, and is asked again: %s", error_text(error))
        self.failure = error.with_traceback(None)  # its frames hold the reader
        self.failure.__context__ = None
        return True

    @functools.cached_property
    def _spec(self) -> Any:
        return self._remote(0, None).element_spec

    def _remote(self, epoch: int, rest: Rest | None) -> tf.data.Dataset:
        return remote_part(self.pipeline, epoch, self.cut, rest=rest)

    def _dataset_id(self, epoch: int, part: int) -> str:
        pipeline = f"{self.pipeline.fingerprint()[:16]}.cut-{self.cut.position}"
        # What was offered ahead to a plane that was then restarted is not what is read after that.
        return f"{self._job.job_id}.train.{pipeline}.generation-{self.generation}.epoch-{epoch}.part-{part}"


def _served(
    data: tf.data.Dataset,
    dataset_id: str,
    job: JobContext,
    order: Order,
    transport: Transport,
    sharding: str,
    is_own: bool,
) -> tf.data.Dataset:
    """is_own: whether this rank alone reads it."""
    wire = _wire(job, order)
    if is_own or job.rank == 0:
        transport.publish(wire, order.dispatcher, data, dataset_id)
    else:
        transport.wait_published(wire, order.dispatcher, dataset_id)
    leave_at_exit(wire)  # also if data hosts do not answer readers that the script leaves
    return transport.read(wire, order.dispatcher, dataset_id, data.element_spec, sharding)


def _wire(job: JobContext, order: Order) -> Wire:
    env = environment()
    return of_rank(resolve(job.host, env, job.host) if job.host else "", order.encrypted, env)


def _sharding(found: Inspection, asked: str, workers: int) -> str:
    check_known("sharding", asked, ("auto", "dynamic", "off"))
    if found.python_functions:
        raise UsageError(
            f"the data set runs Python code ({', '.join(found.python_functions)}), which other hosts cannot: "
            "tf.data service takes TensorFlow operations only. Replace it, or call tfhet.distribute before it, or have "
            "the data hosts run it: give tfhet.distribute a function that returns the data set, and the launcher "
            "--data_plane feed (docs/feed.md)"
        )
    if asked == "auto":
        asked = "dynamic"
    if asked == "off":
        if found.seeded_shuffle:
            log.warning("sharding off and a shuffle with a fixed seed: every worker sends the same batches")
        return asked
    if found.splits is not None and workers > found.splits >= 0:
        log.warning("%d source elements for %d workers: some workers idle", found.splits, workers)
    return asked


def sharing_advice(pipeline: Pipeline, workers: int) -> str | None:
    """Describes what is wrong with the number of splits for `workers` workers; None when nothing is."""
    splits, wanted = pipeline.source.split_count(), SPLITS_PER_WORKER * workers
    if splits >= wanted:
        return None
    return (
        f"{splits} splits for {workers} workers: a worker takes whole splits, so write at least {wanted} files to keep "
        "all of them busy to the end of an epoch"
    )
