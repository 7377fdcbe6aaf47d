"""Marks for JAX, whose steps compute after their call has returned: the time for which no step computed during a wait.

A script dispatches a step and requests the next batch at once, while the step still computes. The outputs of the step
are arrays that exist already and are not ready yet. A request notes these arrays, and a thread waits for them: then the
device has no work, and the rest of the request is the wait that a faster input would save.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from queue import SimpleQueue
from typing import Any

from tfhet.watching.inside.recorder import LATE_S, Recorder, failed, now

MOST_ARRAYS = 64
"""Number of arrays that a request looks at, the newest first: the last outputs are among them."""


class Mark:
    """The work of the device at one request. arrays: those that are not ready."""

    def __init__(self, arrays: list[Any]):
        self._arrays, self._at_s = arrays, now()
        self._idle_s: float | None = None
        """When the last of the arrays was ready."""
        self._delivered_s: float | None = None
        self._was_busy = False
        """Whether the device still computed at the delivery."""

    def delivered(self) -> None:
        self._was_busy = any(not is_ready(each) for each in self._arrays)
        self._delivered_s = now()

    def wait_s(self) -> float | None:
        """Seconds for which the device had no work; None as long as that is not known."""
        if self._was_busy:
            return 0.0
        if self._delivered_s is None or self._idle_s is None:
            return None
        return max(0.0, self._delivered_s - self._idle_s)

    def is_late(self) -> bool:
        return now() > self._at_s + LATE_S

    def follow(self) -> None:
        """Waits until the arrays are ready."""
        for each in self._arrays:
            with contextlib.suppress(Exception):  # its computation failed, or a step has taken its memory over
                each.block_until_ready()
        self._idle_s = now()
        self._arrays = []


class Marks:
    """Makes marks as soon as the script uses a device. jax: the module."""

    def __init__(self, jax: Any):
        self._jax = jax
        self._queue: SimpleQueue[Mark] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def request(self) -> Mark | None:
        """Returns a mark; None if the device has no work."""
        try:
            bridge = sys.modules.get("jax._src.xla_bridge")
            if bridge is None or not bridge.backends_are_initialized():  # a request must not initialize a device
                return None
            arrays = [each for each in self._jax.live_arrays()[:MOST_ARRAYS] if not is_ready(each)]
            if not arrays:
                return None
            mark = Mark(arrays)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tfhet-jax", daemon=True)
                self._thread.start()
            self._queue.put(mark)
            return mark
        except Exception as error:
            failed("the arrays of JAX", error)
        return None

    def _run(self) -> None:
        while True:
            self._queue.get().follow()


def is_ready(array: Any) -> bool:
    """Whether an array is computed, or its memory belongs to another one by now."""
    return array.is_deleted() or array.is_ready()


def on_jax(module: Any) -> None:
    """Uses the arrays of JAX once the script uses a device."""
    Recorder.device_marks.append(Marks(module))
