"""Marks in the queue of a GPU: the time for which the device had no work while the script waited for a batch.

A script queues work and continues: it may wait for a batch while the device still computes the step before. An event
is queued at each request and another one at each delivery. The time between both on the device is the time for which
it was idle: it is the wait that a faster input would save.
"""

from __future__ import annotations

from typing import Any

from tfhet.watching.inside.recorder import LATE_S, Recorder, failed, now


class Mark:
    """Two events of one delivery. event: class with record, query and elapsed_time, like `torch.cuda.Event`."""

    def __init__(self, event: Any):
        self._event = event
        self._requested = event(enable_timing=True)
        self._delivered: Any = None
        self._requested.record()
        self._at_s = now()

    def delivered(self) -> None:
        delivered = self._event(enable_timing=True)
        delivered.record()
        self._delivered = delivered

    def wait_s(self) -> float | None:
        """Seconds for which the device had no work; None as long as it has not reached the marks."""
        if self._delivered is None or not self._delivered.query():
            return None
        return max(0.0, self._requested.elapsed_time(self._delivered) / 1e3)

    def is_late(self) -> bool:
        return now() > self._at_s + LATE_S


class Marks:
    """Makes marks as soon as the script uses the device."""

    def __init__(self, cuda: Any):
        self._cuda = cuda

    def request(self) -> Mark | None:
        try:
            if self._cuda.is_initialized() and not self._cuda.is_current_stream_capturing():
                return Mark(self._cuda.Event)
        except Exception as error:
            failed("the events of the GPU", error)
        return None


def on_cuda(module: Any) -> None:
    """Uses the events of `torch.cuda` once the script uses a device."""
    Recorder.device_marks.append(Marks(module))
