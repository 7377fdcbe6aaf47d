"""One epoch of a declared pipeline as this rank's data set: local or served, the same examples either way.

An epoch is a data set of its own: registered, read by all ranks under one job, and gone. Registering one and reading
it to the end costs about 0.1 s (TF 2.15.1, loopback), and the end of the epoch is then the end of the sequence.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import tensorflow as tf

from tfhet.cluster import JobContext
from tfhet.errors import UsageError
from tfhet.placement import Cut, Pipeline, Rest, local_part, one_epoch, remote_part
from tfhet.planes.tf_service.transport import Transport

SPLITS_PER_WORKER = 4
"""Fewer splits than this for each worker leave workers idle at the end of an epoch."""


@dataclass(frozen=True)
class EpochPart:
    """What is read of a declared pipeline at one time: an epoch, or the rest of one."""

    pipeline: Pipeline
    epoch: int
    rest: Rest | None = None
    """Only what is left of the epoch; None: all of it."""
    number: int = 0
    """Of the part within its epoch, each with its own `rest`."""
    cut: Cut | None = None
    """None: where an example is smallest."""
    tag: str = "train"
    """Keeps data sets apart that declare the same pipeline: an epoch is served once, and whoever reads it again under
    the same tag gets what the others have left of it."""

    def register(self, job: JobContext, transport: Transport) -> None:
        """Makes it known to the dispatcher, if the job has one. The first who does counts."""
        if job.dispatcher:
            transport.publish(job.dispatcher, self._remote(), self._id(job))

    def dataset(self, job: JobContext, transport: Transport) -> tf.data.Dataset:
        """This rank's share. All ranks together see each example exactly once.

        Served, and registered before, ranks get whole batches first come, first served, so their counts differ; local,
        rank r reads the splits r, r + size, ... of the epoch's order. Raises UsageError for a pipeline that repeats.
        """
        if self.pipeline.repeat != 1:
            raise UsageError(
                f"a pipeline with repeat={self.pipeline.repeat}: the trainer counts its epochs itself (--epochs)"
            )
        if not job.dispatcher:
            return one_epoch(self.pipeline, self.epoch, (job.rank, job.size), threads_per_rank(job), self.rest)
        spec, name = self._remote().element_spec, self._id(job)
        served = transport.read(job.dispatcher, name, spec, f"{name}.job", "dynamic")
        return local_part(self.pipeline, served, self._cut)

    @property
    def _cut(self) -> Cut:
        return self.cut or Cut.smallest(self.pipeline)

    def _remote(self) -> tf.data.Dataset:
        return remote_part(self.pipeline, self.epoch, self._cut, rest=self.rest)

    def _id(self, job: JobContext) -> str:
        pipeline = f"{self.pipeline.fingerprint()[:16]}.cut-{self._cut.position}"
        return f"{job.job_id}.{self.tag}.{pipeline}.epoch-{self.epoch}.part-{self.number}"


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
