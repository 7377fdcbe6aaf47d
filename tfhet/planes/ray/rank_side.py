"""Ray in a rank that reads declared pipelines or TensorFlow data sets: the plane serves neither."""

from __future__ import annotations

from typing import Any

from tfhet.errors import UsageError
from tfhet.placement import Pipeline
from tfhet.planes.reader import RankSide, Reader
from tfhet.strategies import JobContext


class RayRankSide(RankSide):
    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> Reader:
        raise UsageError(
            "--data_plane ray serves a function that returns a Ray data set (tfhet.batches, tfhet.torch.loader); the "
            "built-in trainer reads a declared pipeline, which tf_service serves: omit --data_plane"
        )

    def plain(self, *arguments: Any, **options: Any) -> Any:
        raise UsageError(
            "--data_plane ray serves a function that returns a Ray data set, not a tf.data.Dataset: omit --data_plane "
            "to use tf.data service"
        )

    declared = plain
