"""When the steps of a job ended and when its launchers began and ended, from the lines of its log."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from benchmarks.job_scripts import stamp
from tfhet.clock import SYSTEM, Clock
from tfhet.messages import FirstBatchLine, MetricLine, parse_line


@dataclass
class JobTimes:
    """Arrival times of lines, in seconds since 1970. The lines of both launchers take the same way.

    Both kinds of script print a line for every step of rank 0. If a script prints stamps, the metric lines of tfhet's
    launcher do not count.
    """

    clock: Clock = SYSTEM
    first_batch_s: float | None = None
    begun_s: list[float] = field(default_factory=list)
    """The begin of each launcher."""
    ended_s: list[float] = field(default_factory=list)
    """The end of each launcher."""
    step_s: list[float] = field(default_factory=list)
    """The end of each step."""
    step_ms: list[float] = field(default_factory=list)
    """Milliseconds of each step."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=40))
    """Last lines of the log, for the message of a job that failed."""
    _has_stamps: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def on_line(self, line: str) -> None:
        """Handles a line of any host."""
        with self._lock:
            self.tail.append(line)
            at_s = self.clock.wall()
            message = parse_line(line)
            if isinstance(message, FirstBatchLine):
                self._add("first_batch", at_s, 0.0)
            elif isinstance(message, MetricLine):
                if not self._has_stamps:
                    self._add("step", at_s, message.step_ms)
            elif (stamped := stamp.read(line)) is not None:
                name, fields = stamped
                self._has_stamps |= name == "step"
                self._add(name, at_s, float(fields.get("step_ms", 0.0)))

    def _add(self, name: str, at_s: float, step_ms: float) -> None:
        if name == "first_batch" and self.first_batch_s is None:
            self.first_batch_s = at_s
        elif name == "step":
            self.step_s.append(at_s)
            self.step_ms.append(step_ms)
        elif name == "launcher_begins":
            self.begun_s.append(at_s)
        elif name == "launcher_ends":
            self.ended_s.append(at_s)
