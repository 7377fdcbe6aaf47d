"""`tfhet.distribute(ds)`: the one line that a training script changes by."""

from __future__ import annotations

import hashlib
import itertools
import logging
from typing import Any

import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute as auto_shard

from tfhet.cluster import JobContext, environment
from tfhet.errors import UsageError
from tfhet.placement import Cut, Pipeline, local_part, one_epoch, remote_part, without_autotune
from tfhet.planes.tf_service.epoch import threads_per_rank
from tfhet.planes.tf_service.inspect import Inspection, inspect, without_last_assertion
from tfhet.planes.tf_service.notice import notify
from tfhet.planes.tf_service.transport import Transport

log = logging.getLogger("tfhet")
_ordinals = itertools.count()


def distribute(
    data: tf.data.Dataset | Pipeline,
    *,
    steps_per_epoch: int | None = None,
    sharding: str = "auto",
    transport: Transport | None = None,
    job: JobContext | None = None,
) -> tf.data.Dataset:
    """This rank's share of `data`: from the data service where the job has one, else prepared in this process.

    Without a data service and with one rank, a plain data set comes back unchanged. Otherwise every rank gets the same
    number of batches in each pass, so that `model.fit` never leaves a rank alone in an allreduce: `steps_per_epoch`,
    or the data set's cardinality divided by the ranks. What one pass leaves over comes first in the next; nothing is
    thrown away. An endless data set stays endless. So does, with several ranks, one whose cardinality is unknown: give
    `steps_per_epoch`, here or to `model.fit`.

    All ranks must call this in the same order. `sharding`: "dynamic" (each file, or other source element, goes to one
    worker, once), "off" (every worker delivers everything), or "auto". `job`: for tests; the environment otherwise.
    Raises UsageError for what tf.data service cannot run (Python functions), and for less than one batch per rank.
    """
    if steps_per_epoch is not None and steps_per_epoch < 1:
        raise UsageError(f"steps_per_epoch must be at least 1, not {steps_per_epoch}; leave it out for a whole pass")
    job = job or JobContext.from_env(environment())
    ordinal = next(_ordinals)  # counted in every shape, so that scripts may mix served and local data sets
    if isinstance(data, Pipeline):
        return _pipeline(data, steps_per_epoch, transport or Transport(), job, ordinal)
    if not isinstance(data, tf.data.Dataset):
        raise UsageError(f"tfhet.distribute takes a tf.data.Dataset or a tfhet.Pipeline, not {type(data).__name__}")
    if job.size == 1 and not job.is_served and steps_per_epoch is None:
        _say_reading(job, data)
        return data
    cardinality = int(data.cardinality())
    data = without_last_assertion(data)
    steps = steps_per_epoch or _steps(cardinality, job.size)
    if steps is None and cardinality == tf.data.UNKNOWN_CARDINALITY and job.size > 1:
        log.warning(
            "the data set does not know its number of batches: it repeats without end. Say model.fit(..., "
            "steps_per_epoch=N), or tfhet.distribute(ds, steps_per_epoch=N) with N steps for each rank"
        )
    if steps is not None or job.size > 1:
        data = data if cardinality == tf.data.INFINITE_CARDINALITY else data.repeat()
    _say_reading(job, data)
    if job.dispatcher:
        found = inspect(data)
        sharding = _sharding(found, sharding, job)
        dataset_id = f"{job.job_id}.plain-{ordinal}.{_spec_hash(data.element_spec)}"
        data = without_autotune(_served(data, dataset_id, job, transport or Transport(), sharding).prefetch(2))
    elif job.size > 1:
        data = _share(data, job)
    return data if steps is None else _passes(data, steps)


def _say_reading(job: JobContext, data: tf.data.Dataset) -> None:
    """Tells the launcher, which has to know whether losing a worker for good would keep the data from ever ending."""
    if job.record_dir:
        notify("reads", endlessly=bool(data.cardinality() == tf.data.INFINITE_CARDINALITY))


def _pipeline(
    pipeline: Pipeline, steps: int | None, transport: Transport, job: JobContext, ordinal: int
) -> tf.data.Dataset:
    count = pipeline.source.example_count()
    if steps is None and count is not None and pipeline.repeat:
        steps = _steps(-(-count * pipeline.repeat // pipeline.batch_size), job.size)
    if job.dispatcher:
        cut = Cut.smallest(pipeline)
        dataset_id = f"{job.job_id}.pipeline-{ordinal}.{pipeline.fingerprint()[:16]}"
        remote = remote_part(pipeline, None, cut)
        _say_reading(job, remote)
        served = _served(remote, dataset_id, job, transport, "dynamic")
        data = local_part(pipeline, served, cut)
    else:
        data = one_epoch(pipeline, None, (job.rank, job.size), threads_per_rank(job))
        _say_reading(job, data)
    pairs = data.map(lambda element: (element["image"], element["label"]))
    return pairs if steps is None else _passes(pairs, steps)


def _steps(batches: int, ranks: int) -> int | None:
    """Batches for each rank in one pass; None when the number of batches is unknown or endless."""
    if batches < 0:
        return None
    if batches < ranks:
        raise UsageError(
            f"{batches} batches cannot be shared among {ranks} ranks; give every rank at least one "
            "(smaller batches, or more data)"
        )
    return batches // ranks


def _passes(endless_data: tf.data.Dataset, steps: int) -> tf.data.Dataset:
    """A data set of `steps` elements that goes on, at each new pass, where the last one stopped."""
    iterator = iter(endless_data)
    data = tf.data.Dataset.range(steps).map(lambda _: next(iterator))
    return without_autotune(data.prefetch(2).apply(tf.data.experimental.assert_cardinality(steps)))


def _served(
    data: tf.data.Dataset, dataset_id: str, job: JobContext, transport: Transport, sharding: str
) -> tf.data.Dataset:
    assert job.dispatcher is not None
    if job.rank == 0:
        transport.publish(job.dispatcher, data, dataset_id)
    else:
        transport.wait_published(job.dispatcher, dataset_id)
    return transport.read(job.dispatcher, dataset_id, data.element_spec, f"{dataset_id}.job", sharding)


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
    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy
    enough = found.splits is not None and found.splits >= job.size
    by_file = found.reads_files and enough and not found.asserts_cardinality
    options.experimental_distribute.auto_shard_policy = policy.FILE if by_file else policy.DATA
    return auto_shard._AutoShardDataset(data.with_options(options), job.size, job.rank)


def _sharding(found: Inspection, asked: str, job: JobContext) -> str:
    if asked not in ("auto", "dynamic", "off"):
        raise UsageError(f"unknown sharding {asked!r}; known: auto, dynamic, off")
    if found.python_functions:
        raise UsageError(
            f"the data set runs Python code ({', '.join(found.python_functions)}), which other hosts cannot: "
            "tf.data service takes TensorFlow operations only. Replace it, or call tfhet.distribute before it"
        )
    if asked == "auto":
        asked = "dynamic" if found.roots == 1 else "off"
    if found.asserts_cardinality and asked == "dynamic" and job.workers > 1:
        raise UsageError(
            "the data set has an assert_cardinality inside, which fails where workers share the data: "
            "apply it last, or give tfhet.distribute steps_per_epoch instead"
        )
    if asked == "off":
        if found.seeded_shuffle:
            log.warning("sharding off and a shuffle with a fixed seed: every worker sends the same batches")
        return asked
    if found.splits is not None and job.workers > found.splits >= 0:
        log.warning("%d source elements for %d workers: some workers idle", found.splits, job.workers)
    if not found.reads_files:
        log.info("the source is not made of files: each of its elements costs the dispatcher one request")
    return asked


def _spec_hash(spec: Any) -> str:
    return hashlib.sha256(repr(spec).encode()).hexdigest()[:12]
