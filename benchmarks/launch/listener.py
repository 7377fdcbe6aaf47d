"""Hears a job: when its first batch came, when each step was taken, when its launchers began and ended."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from benchmarks.job_scripts.stamp import read
from tfhet.clock import SYSTEM, Clock
from tfhet.messages import FirstBatchLine, MetricLine, parse_line


@dataclass
class JobListener:
    """Lines of a job and when they came, in seconds since 1970: they take the same way in all flows. Both kinds
    of script print a line for every step of rank 0; the launcher's metric lines of a script that prints its own steps
    do not count."""

    clock: Clock = SYSTEM
    first_batch_s: float | None = None
    begun_s: list[float] = field(default_factory=list)
    """The beginning of each launcher."""
    ended_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    """The end of each step."""
    step_ms: list[float] = field(default_factory=list)
    """Milliseconds of each step since the one before; of the first, since the script was ready to begin."""
    lines: list[str] = field(default_factory=list)
    """The last ones, for the message of a job that failed."""
    _has_stamps: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def hear(self, line: str) -> None:
        """Takes note of a line of any host."""
        with self._lock:
            self.lines = [*self.lines[-39:], line]
            at_s = self.clock.wall()
            said = parse_line(line)
            if isinstance(said, FirstBatchLine):
                self._first(at_s)
            elif isinstance(said, MetricLine):
                if not self._has_stamps:
                    self._step(at_s, said.step_ms)
            elif (stamped := read(line)) is not None:
                name, fields = stamped
                if name == "first_batch":
                    self._first(at_s)
                elif name == "step":
                    self._has_stamps = True
                    self._step(at_s, float(fields["step_ms"]))
                elif name == "launcher_begins":
                    self.begun_s.append(at_s)
                elif name == "launcher_ends":
                    self.ended_s.append(at_s)

    def _first(self, at_s: float) -> None:
        self.first_batch_s = at_s if self.first_batch_s is None else self.first_batch_s

    def _step(self, at_s: float, took_ms: float) -> None:
        self.step_s.append(at_s)
        self.step_ms.append(took_ms)
