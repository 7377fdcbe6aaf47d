"""One epoch of a declared pipeline as this rank's data set: local or served, the same examples either way.

An epoch is a data set of its own: registered, read by all ranks under one job, and gone. Registering one and reading
it to the end costs about 0.1 s (TF 2.15.1, loopback), and the end of the epoch is then the end of the sequence.
"""

from __future__ import annotations

import os

import tensorflow as tf

from tfhet.cluster import JobContext
from tfhet.errors import UsageError
from tfhet.placement import Cut, Pipeline, local_part, one_epoch, remote_part
from tfhet.service.transport import Transport

SPLITS_PER_WORKER = 4
"""Fewer splits than this for each worker leave workers idle at the end of an epoch."""


def epoch_dataset(
    pipeline: Pipeline,
    epoch: int,
    job: JobContext,
    *,
    cut: Cut | None = None,
    transport: Transport | None = None,
    tag: str = "train",
) -> tf.data.Dataset:
    """This rank's share of `epoch`. All ranks together see each example exactly once.

    Served, ranks get whole batches first come, first served, so their counts differ; local, rank r reads the splits
    r, r + size, ... of the epoch's order. `tag` keeps data sets apart that declare the same pipeline: an
    epoch is served once, and whoever reads it again under the same tag gets what the others have left of it.
    """
    if pipeline.repeat != 1:
        raise UsageError(f"a pipeline with repeat={pipeline.repeat}: the trainer counts its epochs itself (--epochs)")
    if not job.dispatcher:
        return one_epoch(pipeline, epoch, (job.rank, job.size), threads_per_rank(job))
    cut, transport = cut or Cut.smallest(pipeline), transport or Transport()
    dataset_id = f"{job.job_id}.{tag}.{pipeline.fingerprint()[:16]}.cut-{cut.position}.epoch-{epoch}"
    remote = remote_part(pipeline, epoch, cut)
    # Every rank registers it, and the first one does: a rank that runs dry may be an epoch ahead of rank 0, and rank 0
    # may wait for it in an allreduce.
    transport.publish(job.dispatcher, remote, dataset_id)
    served = transport.read(job.dispatcher, dataset_id, remote.element_spec, f"{dataset_id}.job", "dynamic")
    return local_part(pipeline, served, cut)


def threads_per_rank(job: JobContext) -> int:
    """The share of this host's cores that one rank may use for its data."""
    return max(1, (os.cpu_count() or 1) // job.local_size)


def sharing_advice(pipeline: Pipeline, workers: int) -> str | None:
    """What is wrong with the number of splits for so many workers; None when nothing is. Raises UsageError for none."""
    splits = pipeline.source.split_count()
    if splits < 1:
        raise UsageError(f"source {pipeline.source.name!r} has no splits: there is nothing to read")
    if workers and splits < SPLITS_PER_WORKER * workers:
        return (
            f"{splits} splits for {workers} workers: a worker takes whole splits, so write at least "
            f"{SPLITS_PER_WORKER * workers} files to keep all of them busy to the end of an epoch"
        )
    return None
