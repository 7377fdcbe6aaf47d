"""The journal of a rank: what its meter has measured, written down now and then, for the timeline of the run."""

from __future__ import annotations

import logging
from pathlib import Path

from tfhet.clock import SYSTEM, Clock
from tfhet.record.entry import Entry, Span, Step
from tfhet.record.timeline import Part
from tfhet.strategies import JobContext
from tfhet.trainer.meter import Meter

log = logging.getLogger("tfhet")


class Journal:
    """Writes each step and pause of a meter once. Nothing is held or done beside the meter between two `write`s."""

    def __init__(
        self, part: Part | None = None, host: str = "", rank: int = 0, meter: Meter | None = None, clock: Clock = SYSTEM
    ):
        """part: where to; None: nowhere."""
        self._part = part
        self._host, self._rank = host, rank
        self._meter = meter or Meter()
        self._steps = self._pauses = 0
        # Taken once: a clock that is put right meanwhile would make steps overlap.
        self._ahead_s = clock.wall() - clock.monotonic()

    @classmethod
    def of(cls, job: JobContext, meter: Meter, clock: Clock = SYSTEM) -> Journal:
        """Of this rank, where its launcher wants one."""
        part = Part(Path(job.timeline_dir) / f"steps-{job.rank}.jsonl") if job.timeline_dir else None
        return cls(part, job.host, job.rank, meter, clock)

    def write(self) -> None:
        """Writes what is new. A disk that is full ends the journal, and not the training."""
        if self._part is None:
            return
        steps, pauses = self._meter.steps[self._steps :], self._meter.pauses[self._pauses :]
        self._steps, self._pauses = self._steps + len(steps), self._pauses + len(pauses)
        new: list[Entry] = [
            Step(
                self._host,
                step.began_s + self._ahead_s,
                step.step_s,
                self._rank,
                step.number,
                step.epoch,
                step.wait_s,
                step.copy_s,
                step.allreduce_s,
            )
            for step in steps
        ]
        new += [Span(self._host, p.began_s + self._ahead_s, p.took_s, self._rank, p.name) for p in pauses]
        try:
            self._part.append(new)
        except OSError as error:
            log.warning("the times of the steps are written no more: %s", error)
            self._part = None
