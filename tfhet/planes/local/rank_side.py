"""The local plane in a rank: its reader, and its share of a data set."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from tfhet.placement import Pipeline, inspect, one_epoch
from tfhet.planes.local.reader import LocalReader
from tfhet.planes.local.sharding import auto_shard
from tfhet.planes.local.threads import threads_per_rank
from tfhet.strategies import JobContext

log = logging.getLogger("tfhet")


class LocalRankSide:
    """See `RankSide`."""

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> LocalReader:
        options.pop("compression", None)  # nothing travels
        return LocalReader(pipeline, job, **options)

    def advice(self, pipeline: Pipeline, job: JobContext) -> str | None:
        return None

    def plain(
        self, data: tf.data.Dataset, job: JobContext, ordinal: int, *, sharding: str, transport: Any
    ) -> tf.data.Dataset:
        return _share(data, job) if job.size > 1 else data

    def declared(self, pipeline: Pipeline, job: JobContext, ordinal: int, transport: Any) -> tf.data.Dataset:
        return one_epoch(pipeline, None, (job.rank, job.size), threads_per_rank(job))


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
    return auto_shard(data.with_options(options), job.size, job.rank)
