"""The batches of a loader as the elements of a `tf.data.Dataset`, whose threads call Python for each of them."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfhet.clock import SYSTEM
from tfhet.errors import UsageError
from tfhet.planes.feed.loader import Loader

CALM_S = 0.05
"""Seconds without a call after which the data sets' threads are taken to call no more: their buffers are full."""
CALM_LIMIT_S = 2.0


class Elements:
    """`elements.dataset(spec)`: every pass over it reads the loader's next epoch."""

    def __init__(self, loader: Loader):
        self._loader, self._called_s, self._is_over = loader, 0.0, False
        atexit.register(self._end)

    def dataset(self, spec: Any) -> tf.data.Dataset:
        return tf.data.Dataset.from_generator(self._each, output_signature=spec).prefetch(2)

    def _each(self) -> Iterator[Any]:
        epoch = iter(()) if self._is_over else iter(self._loader)
        while True:
            try:
                batch = next(epoch, None)
            except UsageError:
                if not self._is_over:
                    raise
                batch = None  # without an error, of which TensorFlow would print the traceback
            self._called_s = SYSTEM.monotonic()
            if batch is None:
                return
            yield batch
            del batch  # else its memory could not be used for the next one

    def _end(self) -> None:
        """Ends what the data sets' threads wait for: one that is in Python when the interpreter ends never returns, and
        TensorFlow waits for it (2.15.1)."""
        self._is_over, self._called_s = True, SYSTEM.monotonic()
        self._loader.close()
        end_s = self._called_s + CALM_LIMIT_S
        while self._called_s + CALM_S > SYSTEM.monotonic() < end_s:
            SYSTEM.sleep(CALM_S / 5)
