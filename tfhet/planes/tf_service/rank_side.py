"""tf.data service in a rank: its reader, and its share of a data set that workers prepare."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.placement import Cut, Pipeline, local_part, remote_part, without_autotune
from tfhet.placement.inspect import Inspection, inspect
from tfhet.planes.tf_service.order import Order
from tfhet.planes.tf_service.reader import ServiceReader
from tfhet.planes.tf_service.transport import Transport
from tfhet.strategies import JobContext

log = logging.getLogger("tfhet")
SPLITS_PER_WORKER = 4
"""With fewer splits than this for each worker, workers idle at the end of an epoch."""


class ServiceRankSide:
    """See `RankSide`."""

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> ServiceReader:
        compression = options.pop("compression", "none")
        transport = Transport(compression="AUTO" if compression == "snappy" else None)
        return ServiceReader(pipeline, job, **{"transport": transport, **options})

    def advice(self, pipeline: Pipeline, job: JobContext) -> str | None:
        return sharing_advice(pipeline, Order.parse(job.order).workers)

    def plain(
        self, data: tf.data.Dataset, job: JobContext, ordinal: int, *, sharding: str, transport: Transport | None
    ) -> tf.data.Dataset:
        order = Order.parse(job.order)
        sharding = _sharding(inspect(data), sharding, order.workers)
        spec_hash = hashlib.sha256(repr(data.element_spec).encode()).hexdigest()[:12]
        dataset_id = f"{job.job_id}.plain-{ordinal}.{spec_hash}"
        served = _served(data, dataset_id, job, order, transport or Transport(), sharding)
        return without_autotune(served.prefetch(2))

    def declared(
        self, pipeline: Pipeline, job: JobContext, ordinal: int, transport: Transport | None
    ) -> tf.data.Dataset:
        cut = Cut.smallest(pipeline)
        dataset_id = f"{job.job_id}.pipeline-{ordinal}.{pipeline.fingerprint()[:16]}"
        remote, order = remote_part(pipeline, None, cut), Order.parse(job.order)
        return local_part(pipeline, _served(remote, dataset_id, job, order, transport or Transport(), "dynamic"), cut)


def _served(
    data: tf.data.Dataset, dataset_id: str, job: JobContext, order: Order, transport: Transport, sharding: str
) -> tf.data.Dataset:
    if job.rank == 0:
        transport.publish(order.dispatcher, data, dataset_id)
    else:
        transport.wait_published(order.dispatcher, dataset_id)
    return transport.read(order.dispatcher, dataset_id, data.element_spec, f"{dataset_id}.job", sharding)


def _sharding(found: Inspection, asked: str, workers: int) -> str:
    if asked not in ("auto", "dynamic", "off"):
        raise UsageError(f"unknown sharding {asked!r}; known: auto, dynamic, off")
    if found.python_functions:
        raise UsageError(
            f"the data set runs Python code ({', '.join(found.python_functions)}), which other hosts cannot: "
            "tf.data service takes TensorFlow operations only. Replace it, or call tfhet.distribute before it"
        )
    if asked == "auto":
        asked = "dynamic" if found.roots == 1 else "off"
    if found.asserts_cardinality and asked == "dynamic" and workers > 1:
        raise UsageError(
            "the data set has an assert_cardinality inside, which fails where workers share the data: "
            "apply it last, or give tfhet.distribute steps_per_epoch instead"
        )
    if asked == "off":
        if found.seeded_shuffle:
            log.warning("sharding off and a shuffle with a fixed seed: every worker sends the same batches")
        return asked
    if found.splits is not None and workers > found.splits >= 0:
        log.warning("%d source elements for %d workers: some workers idle", found.splits, workers)
    if not found.reads_files:
        log.info("the source is not made of files: each of its elements costs the dispatcher one request")
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
