"""A feed in a rank that reads TensorFlow data sets, which a function returns on the serving hosts."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM
from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline
from tfhet.planes.feed.loader import Loader
from tfhet.planes.feed.settings import Order
from tfhet.planes.reader import RankSide, Reader
from tfhet.strategies import JobContext

NUMPY_KINDS = "?biufcO"  # not bfloat16 and similar ones
QUIET_S = 0.05
"""Seconds without a call after which the threads of the data sets have filled their buffers."""
CALM_LIMIT_S = 2.0


class FunctionRankSide(RankSide):
    """A plane that serves functions of the script, and neither declared pipelines nor TensorFlow's data sets."""

    def __init__(self, plane: str, returned: str):
        """returned: the type of the functions' results."""
        self._serves = (
            f"--data_plane {plane} serves functions that return {returned} (tfhet.batches, tfhet.torch.loader)"
        )

    def reader(self, pipeline: Pipeline, job: JobContext, **options: Any) -> Reader:
        raise UsageError(
            f"{self._serves}; the built-in trainer reads a declared pipeline, which tf_service serves: omit "
            "--data_plane"
        )

    def plain(self, *arguments: Any, **options: Any) -> tf.data.Dataset:
        raise UsageError(f"{self._serves}, and tf_service serves pipelines and data sets: omit --data_plane")

    declared = plain


class FeedRankSide(FunctionRankSide):
    def __init__(self) -> None:
        super().__init__("feed", "batches")

    def plain(self, data: tf.data.Dataset, job: JobContext, ordinal: int, **options: Any) -> tf.data.Dataset:
        if Order.parse(job.order).servers:
            raise UsageError(
                "--data_plane feed serves the data set of a function: pass tfhet.distribute a function at the top "
                "level of its module, which takes a shard and returns the data set, or omit --data_plane to use "
                "tf.data service"
            )
        return RankSide.plain(self, data, job, ordinal, **options)

    def called(
        self, make: Callable[..., Any], arguments: Mapping[str, Any], spec: Any, job: JobContext, training: bool
    ) -> tf.data.Dataset | None:
        """Each pass of the data set reads one epoch. Raises UsageError for elements that a feed cannot send."""
        if not Order.parse(job.order).servers:
            return None
        for one in tf.nest.flatten(spec):
            if not (isinstance(one, tf.TensorSpec) and np.dtype(one.dtype.as_numpy_dtype).kind in NUMPY_KINDS):
                raise UsageError(
                    f"a feed sends tensors of NumPy's dtypes, but the data set of {make.__name__} has {one}: convert "
                    "it at the end of the function"
                )
        loader = Loader(make, arguments, training=training, job=job, is_noted=False)
        return Elements(loader).dataset(spec)


class Elements:
    """The batches of a loader as a data set; each pass reads the next epoch."""

    def __init__(self, loader: Loader):
        self._loader: Loader | None = loader
        self._called_s, self._is_over = 0.0, False
        atexit.register(self._end)

    def dataset(self, spec: Any) -> tf.data.Dataset:
        made = tf.data.Dataset.from_generator(self._each, output_signature=spec).prefetch(2)
        weakref.finalize(made, self._free).atexit = False
        return made

    def _each(self) -> Iterator[Any]:
        if self._loader is None and not self._is_over:
            raise UsageError("the data set of this feed was freed, so nothing can read it")
        epoch = iter(()) if self._loader is None or self._is_over else iter(self._loader)
        while True:
            try:
                batch = next(epoch, None)
            except UsageError:
                if not self._is_over:
                    raise
                batch = None  # TensorFlow would print the traceback of an error
            self._called_s = SYSTEM.monotonic()
            if batch is None:
                return
            yield batch
            del batch  # frees its memory for the next batch

    def _free(self) -> None:
        """Closes the loader once the data set is gone: TensorFlow keeps generators until Python ends (2.15.1)."""
        atexit.unregister(self._end)
        if self._loader is not None:
            self._loader.close()
        self._loader = None

    def _end(self) -> None:
        """Wakes the threads of the data sets: TensorFlow waits for them, and a thread that is in Python when the
        interpreter ends never returns (2.15.1)."""
        self._is_over, self._called_s = True, SYSTEM.monotonic()
        if self._loader is not None:
            self._loader.close()
        end_s = self._called_s + CALM_LIMIT_S
        while self._called_s + QUIET_S > SYSTEM.monotonic() < end_s:
            SYSTEM.sleep(QUIET_S / 5)
