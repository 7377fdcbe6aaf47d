"""Marks for JAX, whose steps compute after their call has returned: the time for which no step computed during a wait.

A script dispatches a step and requests the next batch at once, while the step still computes. The outputs of the step
are arrays that exist already and are not ready yet. A request notes these arrays, and a thread looks until they are:
then the device has no work, and the rest of the request is the wait that a faster input would save. The thread must
not wait inside of JAX: Python aborts a process whose daemon thread is there at its end.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from queue import SimpleQueue
from typing import Any

from tfhet.watching.inside.recorder import LAST_S, LATE_S, Recorder, failed, now

MOST_ARRAYS = 64
"""Number of arrays that a request looks at, the newest first: the last outputs are among them."""
SHORTEST_S, LONGEST_S = 0.0002, 0.002
"""Minimum and maximum time between two looks at the arrays of a request."""


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

    def is_followed(self) -> bool:
        """Looks at the arrays; returns whether it must look again."""
        if not self._was_busy and self._idle_s is None and all(is_ready(each) for each in self._arrays):
            self._idle_s = now()
        return not self._was_busy and self._idle_s is None and not self.is_late()

    def pause_s(self) -> float:
        """Seconds between two looks: a twentieth of the time since the request."""
        return min(LONGEST_S, max(SHORTEST_S, (now() - self._at_s) / 20))


class Marks:
    """Makes marks as soon as the script uses a device. jax: the module."""

    def __init__(self, jax: Any):
        self._jax = jax
        self._queue: SimpleQueue[Mark | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closes = threading.Event()

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
                atexit.register(self.close)
            self._queue.put(mark)
            return mark
        except Exception as error:
            failed("the arrays of JAX", error)
        return None

    def close(self) -> None:
        """Ends the thread: one that calls JAX while Python ends would abort the process."""
        self._closes.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(LAST_S)

    def _run(self) -> None:
        while not self._closes.is_set():
            mark = self._queue.get()
            while mark is not None and not self._closes.is_set() and mark.is_followed():
                time.sleep(mark.pause_s())


def is_ready(array: Any) -> bool:
    """Whether an array is computed, or its memory belongs to another one by now."""
    return array.is_deleted() or array.is_ready()


def on_jax(module: Any) -> None:
    """Uses the arrays of JAX once the script uses a device."""
    Recorder.device_marks.append(Marks(module))
