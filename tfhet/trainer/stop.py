"""The wish to stop: SIGTERM, which the launcher sends when a platform takes its machines back."""

from __future__ import annotations

import signal
import threading
from types import FrameType

STOP_CODE = 128 + signal.SIGTERM
"""What a training that was told to stop, and has left a checkpoint, exits with."""


class StopRequest:
    """Hears SIGTERM instead of dying of it, from `listen` on. Before that nothing has been done that could be lost."""

    def __init__(self) -> None:
        self.is_made = False

    def listen(self) -> None:
        """Takes the signal over; only a process's main thread can, and elsewhere nothing is heard."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.is_made = True
