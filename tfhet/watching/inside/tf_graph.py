"""The clock before and after each request for a batch inside of a graph, where Keras' `fit` requests them.

tf.data hands a batch over from a thread of its own. The hand-over is part of the wait, and `NotedDataset`, which notes
inside of tf.data, does not see it.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from tfhet.watching.inside.recorder import now

ROWS = 4096
"""Number of requests that are kept until the recorder reads them: more than a script makes between two reads."""
LATEST = 64
"""Number of times that are kept after they were read."""
SLACK_S = 0.002
"""Difference between the two clocks that is tolerated."""


class GraphClock:
    """Times of the requests of all graphs of a process. It never holds up a graph: unread rows are overwritten."""

    def __init__(self) -> None:
        import tensorflow as tf

        with tf.init_scope(), tf.device("CPU:0"):
            self._rows = tf.Variable(tf.zeros([ROWS, 2], tf.float64), trainable=False)
            self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._read = 0
        self._latest: list[tuple[float, float]] = []
        """The last times that were read: their batches may be noted later."""

    def timed(self, request: Callable[[], Any]) -> Any:
        """Adds a request to the graph that is traced, with the clock around it. Returns the batch."""
        import tensorflow as tf

        with tf.device("CPU:0"):
            asked_s = tf.timestamp()
        with tf.control_dependencies([asked_s]):
            batch = request()
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)), tf.device("CPU:0"):
            times = tf.stack([asked_s, tf.timestamp()])
            at = (self._count.assign_add(1) - 1) % ROWS
            self._rows.scatter_nd_update([[at]], [times])
        return batch

    def read(self) -> Times:
        """Returns the new times, and some of those before."""
        first, self._read = self._read, int(self._count.numpy())
        rows, ahead_s = self._rows.numpy(), time.time() - now()
        new = [(rows[at % ROWS] - ahead_s).tolist() for at in range(max(first, self._read - ROWS), self._read)]
        found = [*self._latest, *((asked_s, delivered_s) for asked_s, delivered_s in new)]
        self._latest = found[-LATEST:]
        return Times(found)


class Times:
    """Times of requests and deliveries in the order of the requests."""

    def __init__(self, rows: list[tuple[float, float]]):
        self._rows = rows

    def around(self, asked_s: float, delivered_s: float) -> tuple[float, float]:
        """Returns the request and the delivery that enclose those of tf.data; the same times if there are none."""
        at = bisect_right(self._rows, (asked_s + SLACK_S, float("inf"))) - 1
        if at < 0 or self._rows[at][1] < delivered_s - SLACK_S:
            return asked_s, delivered_s
        return min(asked_s, self._rows[at][0]), max(delivered_s, self._rows[at][1])
