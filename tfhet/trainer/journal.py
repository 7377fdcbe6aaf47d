"""The journal of a rank: writes the steps and pauses of its meter to the timeline of the run."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from tfhet.clock import SYSTEM, Clock
from tfhet.record import Pause, StepTime, TimelineFile
from tfhet.strategies import JobContext
from tfhet.trainer.meter import Meter

log = logging.getLogger("tfhet")


class Journal:
    """Writes each step and pause of a meter once. Between two calls of `write` it costs nothing."""

    def __init__(
        self,
        file: TimelineFile | None = None,
        host: str = "",
        rank: int = 0,
        meter: Meter | None = None,
        clock: Clock = SYSTEM,
    ):
        """file: where entries are appended; None for a journal that writes nothing."""
        self._file = file
        self._host, self._rank = host, rank
        self._meter = meter or Meter()
        self._steps = self._pauses = 0
        # Taken once: if the system's clock were adjusted in between, steps would overlap.
        self._ahead_s = clock.wall() - clock.monotonic()

    @classmethod
    def of(cls, job: JobContext, meter: Meter, clock: Clock = SYSTEM) -> Journal:
        """The journal of this rank, which writes where the launcher asked for step times."""
        file = TimelineFile(Path(job.timeline_dir) / f"steps-{job.rank}.jsonl") if job.timeline_dir else None
        return cls(file, job.host, job.rank, meter, clock)

    def write(self) -> None:
        """Writes what is new since the last call. An error of the disk ends the journal, not the training."""
        if self._file is None:
            return
        new: list[StepTime | Pause] = [*self._meter.steps[self._steps :], *self._meter.pauses[self._pauses :]]
        self._steps, self._pauses = len(self._meter.steps), len(self._meter.pauses)
        try:
            self._file.append([self._dated(entry) for entry in new])
        except OSError as error:
            log.warning("the times of the steps are not written any more: %s", error)
            self._file = None

    def _dated(self, entry: StepTime | Pause) -> StepTime | Pause:
        return replace(entry, at_s=entry.at_s + self._ahead_s, rank=self._rank, host=self._host)
