"""One epoch of a declared pipeline as a data set that workers serve.

An epoch is a data set of its own: registered, read by all ranks under one job, and gone. Registering one and reading
it to the end costs about 0.1 s (TF 2.15.1, loopback), and the end of the epoch is then the end of the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tfhet.placement import Cut, Pipeline, Rest, local_part, remote_part
from tfhet.planes.local.reader import check_one_pass
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
    """Number of the part within its epoch, each with its own `rest`."""
    cut: Cut | None = None
    """None: where an example is smallest."""
    tag: str = "train"
    """Keeps data sets apart that declare the same pipeline: an epoch is served once, and a reader that reads it again
    under the same tag gets what the others have left of it."""

    def register(self, job_id: str, dispatcher: str, transport: Transport) -> None:
        """Makes it known to the dispatcher at `dispatcher`. The first call counts."""
        transport.publish(dispatcher, self._remote(), self._id(job_id))

    def dataset(self, job_id: str, dispatcher: str, transport: Transport) -> tf.data.Dataset:
        """This rank's share, registered before. All ranks together see each example exactly once.

        Ranks get whole batches first come, first served, so their counts differ. Raises UsageError for a pipeline that
        repeats.
        """
        check_one_pass(self.pipeline)
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
        return f"{job_id}.{self.tag}.{pipeline}.epoch-{self.epoch}.part-{self.number}"


def sharing_advice(pipeline: Pipeline, workers: int) -> str | None:
    """What is wrong with the number of splits for `workers` workers; None when nothing is."""
    splits = pipeline.source.split_count()
    if workers and splits < SPLITS_PER_WORKER * workers:
        return (
            f"{splits} splits for {workers} workers: a worker takes whole splits, so write at least "
            f"{SPLITS_PER_WORKER * workers} files to keep all of them busy to the end of an epoch"
        )
    return None
