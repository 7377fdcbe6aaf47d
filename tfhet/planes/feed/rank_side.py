"""A feed in a rank that reads data sets of TensorFlow: those that a function returns on the hosts that serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.placement import Pipeline
from tfhet.planes.feed.elements import Elements
from tfhet.planes.feed.loader import Loader
from tfhet.planes.feed.settings import Order
from tfhet.planes.reader import RankSide, Reader
from tfhet.strategies import JobContext

NUMPY_KINDS = "?biufcO"
"""Kinds of dtypes that a feed sends: booleans, numbers, texts; not bfloat16 and its like."""


class FeedRankSide(RankSide):
    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> Reader:
        raise UsageError(
            "--data_plane feed serves a function of a script's own (tfhet.batches, tfhet.torch.loader); the built-in "
            "trainer reads a declared pipeline, which tf_service serves: omit --data_plane"
        )

    def plain(self, data: tf.data.Dataset, job: JobContext, ordinal: int, **options: Any) -> tf.data.Dataset:
        if Order.parse(job.order).servers:
            raise UsageError(
                "--data_plane feed serves what a function returns: give tfhet.distribute a function at the top level "
                "of its module, which takes a shard and returns the data set, or omit --data_plane to have tf.data "
                "service serve it"
            )
        return super().plain(data, job, ordinal, **options)

    def declared(self, *given: Any, **options: Any) -> tf.data.Dataset:
        raise UsageError("--data_plane feed serves no declared pipeline, and tf_service does: omit --data_plane")

    def called(
        self,
        make: Callable[..., Any],
        arguments: Mapping[str, Any],
        spec: Any,
        job: JobContext,
        training: bool,
    ) -> tf.data.Dataset | None:
        """Every pass reads one epoch of all processes that serve. Raises UsageError for elements that a feed does not
        send."""
        if not Order.parse(job.order).servers:
            return None
        for one in tf.nest.flatten(spec):
            if not (isinstance(one, tf.TensorSpec) and np.dtype(one.dtype.as_numpy_dtype).kind in NUMPY_KINDS):
                raise UsageError(
                    f"a feed sends tensors of NumPy's dtypes, and the data set of {make.__name__} has {one}: convert "
                    "it at the end of the function"
                )
        loader = Loader(make, arguments, training=training, job=job, is_noted=False)
        return Elements(loader).dataset(spec)
