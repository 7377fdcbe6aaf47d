"""The meter of a rank: its steps, its pauses, and the figures that follow from them; and the journal of both."""

from __future__ import annotations

import contextlib
import logging
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.messages import MetricLine, StepPartsLine, rank
from tfhet.record import (
    WARM_UP_STEPS,
    Pause,
    RunSummary,
    Spread,
    StepTime,
    TimelineFile,
    measured_steps,
    median,
    wait_pct,
)
from tfhet.strategies import JobContext
from tfhet.writer import Writer

CPU_STEPS = 5
"""Least number of steps over which CPU time is counted: it is looked at between two steps, not at their ends."""
_COLUMNS = ("dur_s", "wait_s", "examples", "copy_s", "allreduce_s", "at_s", "step", "epoch")
_COUNTS = ("examples", "step", "epoch")
log = logging.getLogger("tfhet")


class KeptSteps(Sequence[StepTime]):
    """Steps of a rank without its number and host, in 64 bytes each. A column has NaN for an `allreduce_s` of None."""

    def __init__(self) -> None:
        self._columns = {name: array("d") for name in _COLUMNS}

    def append(self, step: StepTime) -> None:
        for name, column in self._columns.items():
            value = getattr(step, name)
            column.append(math.nan if value is None else value)

    def column(self, name: str) -> array[float]:
        """The values of one field, of all steps."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(self._columns["epoch"])  # the last one that `append` extends

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        values: dict[str, Any] = {name: column[at] for name, column in self._columns.items()}
        whole = {name: int(value) for name, value in values.items() if name in _COUNTS and value.is_integer()}
        alone = {"allreduce_s": None} if math.isnan(values["allreduce_s"]) else {}
        return StepTime(**values | whole | alone)


class Meter:
    """Collects the steps and pauses of one rank; times are on the clock of the training loop."""

    def __init__(self) -> None:
        self.steps = KeptSteps()
        """All steps, the warm-up included."""
        self.pauses: list[Pause] = []
        self._since_line = 0
        self._examples = self._step_s = self._wait_s = 0.0
        self._cpu_ms: list[float] = []
        self._counted: tuple[int, float] | None = None
        """Number of steps, and CPU seconds of the process, when they were last counted."""

    def add(self, step: StepTime) -> None:
        self.steps.append(step)
        self._examples += step.examples
        self._step_s += step.dur_s
        self._wait_s += step.wait_s

    def totals(self) -> rank.Progress:
        """Sums over all steps, the warm-up included."""
        return rank.Progress(len(self.steps), self._examples, self._step_s, self._wait_s)

    def count_cpu(self, cpu_s: float) -> None:
        """Takes the CPU seconds of this process so far: what is new belongs to the new steps, if they are enough."""
        steps = len(self.steps)
        if self._counted is None:
            self._counted = (steps, cpu_s) if steps > WARM_UP_STEPS else None
        elif steps - self._counted[0] >= CPU_STEPS:
            self._cpu_ms.append(1e3 * (cpu_s - self._counted[1]) / (steps - self._counted[0]))
            self._counted = steps, cpu_s

    @contextlib.contextmanager
    def pause(self, name: str, clock: Clock) -> Iterator[None]:
        """Records the body of the `with` statement as a pause."""
        began_s = clock.monotonic()
        try:
            yield
        finally:
            self.pauses.append(Pause(name, began_s, clock.monotonic() - began_s))

    def measured(self, field: str) -> Sequence[float]:
        """A field of the steps after the warm-up; of all steps of a run that has no others."""
        return measured_steps(self.steps.column(field))

    def step_ms(self) -> Spread | None:
        """Duration of a measured step in milliseconds; None before the first step."""
        return Spread.of(_ms(self.measured("dur_s"))) if self.steps else None

    def wait_ms(self) -> Spread | None:
        """Wait for data in a measured step in milliseconds; None before the first step."""
        return Spread.of(_ms(self.measured("wait_s"))) if self.steps else None

    def wait_pct(self) -> float | None:
        """Wait share of the measured steps, 0 to 100; None before the first step."""
        return wait_pct([StepTime(sum(self.measured("dur_s")), sum(self.measured("wait_s")))])

    def examples_per_s(self) -> float | None:
        """Throughput of all ranks over the measured steps; None before the first step."""
        total_s = sum(self.measured("dur_s"))
        return sum(self.measured("examples")) / total_s if total_s else None

    def parts_ms(self) -> dict[str, float]:
        """Median milliseconds of each component of the measured steps; `allreduce` only where it is known in all."""
        if not self.steps:
            return {}
        names = ("dur_s", "wait_s", "copy_s", "allreduce_s")
        dur_s, wait_s, copy_s, allreduce_s = (np.array(self.measured(name)) for name in names)
        compute_s = np.maximum(0.0, dur_s - wait_s - copy_s - np.nan_to_num(allreduce_s))
        parts = {"wait": wait_s, "copy": copy_s, "compute": compute_s, "allreduce": allreduce_s}
        return {name: median(_ms(seconds)) for name, seconds in parts.items() if not np.isnan(seconds).any()}

    def parts_line(self) -> str:
        """The line at the end of a run with the median of each component of a step."""
        return str(StepPartsLine(parts)) if (parts := self.parts_ms()) else "[tfhet] no step was taken"

    def summary(self, job: JobContext, **more: Any) -> RunSummary:
        """The summary of a run with these steps; `more` of its fields win."""
        measured: dict[str, Any] = {
            "ranks": job.size,
            "steps": len(self.steps),
            "step_ms": self.step_ms(),
            "wait_ms": self.wait_ms(),
            "step_parts_ms": self.parts_ms(),
            "cpu_ms": Spread.of(self._cpu_ms) if self._cpu_ms else None,
            "checkpoint_s": sum(pause.dur_s for pause in self.pauses if pause.name == "checkpoint"),
            "wait_pct": self.wait_pct(),
            "examples_per_s": self.examples_per_s(),
        }
        return RunSummary(job_id=job.job_id, mode=job.mode, **(measured | more))

    def line(self, step: int, epoch: int, loss: float | None) -> MetricLine:
        """The metric line over the steps since the previous one."""
        recent = self.steps[self._since_line :]
        self._since_line = len(self.steps)
        total_s = sum(each.dur_s for each in recent) or 1e-9
        return MetricLine(
            step,
            epoch,
            step_ms=1e3 * total_s / max(1, len(recent)),
            examples_per_s=sum(each.examples for each in recent) / total_s,
            wait_pct=wait_pct(recent) or 0.0,
            loss=loss,
        )


def _ms(seconds: Iterable[float]) -> list[float]:
    return [1e3 * float(each) for each in seconds]


class Journal:
    """Writes each step and pause of a meter once to the run's timeline, where the launcher asked for step times.
    Between two calls of `write` it costs nothing, and a disk that stalls holds up no step."""

    def __init__(self, job: JobContext, meter: Meter, clock: Clock = SYSTEM):
        folder = job.timeline_dir
        self._file = TimelineFile(Path(folder) / f"steps-{job.rank}.jsonl") if folder else None
        self._writer = Writer("journal", self._append) if folder else None
        self._job, self._meter = job, meter
        self._steps = self._pauses = 0
        # Taken once: if the system's clock were adjusted in between, steps would overlap.
        self._ahead_s = clock.wall() - clock.monotonic()

    def write(self, is_last: bool = False) -> None:
        """Writes what is new since the last call. The last call waits for the disk."""
        if self._writer is None:
            return
        new: list[StepTime | Pause] = [*self._meter.steps[self._steps :], *self._meter.pauses[self._pauses :]]
        self._steps, self._pauses = len(self._meter.steps), len(self._meter.pauses)
        rank, host = self._job.rank, self._job.host
        self._writer.put([replace(each, at_s=each.at_s + self._ahead_s, rank=rank, host=host) for each in new])
        if is_last:
            self._writer.close()

    def _append(self, entries: Sequence[StepTime | Pause]) -> None:
        """An error of the disk ends the journal, not the training."""
        try:
            if self._file is not None:
                self._file.append(entries)
        except OSError as error:
            log.warning("the times of the steps are not written any more: %s", error)
            self._file = None
