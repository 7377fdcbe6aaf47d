"""The meter of a rank: its steps, its pauses, and the figures that follow from them; and the journal of both."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.messages import MetricLine, StepPartsLine, rank
from tfhet.record import WARM_UP_STEPS, Pause, RunSummary, Spread, StepTime, TimelineFile, median
from tfhet.steps.kept import MOST, FirstAndLast, KeptSteps, Sample
from tfhet.strategies import JobContext
from tfhet.writer import Writer

MOST_LINES = 3 * MOST
"""Number of lines from which the journal writes its file again, with the steps that the meter has kept."""
CPU_STEPS = 5
"""Least number of steps over which CPU time is counted: it is looked at between two steps, not at their ends."""
log = logging.getLogger("tfhet")


class Meter:
    """Collects the steps and pauses of one rank; times are on the clock of the training loop."""

    def __init__(self) -> None:
        self.steps = KeptSteps()
        """The steps, the warm-up included."""
        self.pauses: FirstAndLast[Pause] = FirstAndLast()
        self._checkpoint_s = 0.0
        self._sums, self._at_line, self._warm_up = _Sums(), _Sums(), _Sums()
        """Sums of all steps; of those up to the last metric line; and of the warm-up."""
        self._counted_s = 0.0
        """Seconds of a wait that a metric line counted before its step ended."""
        self._cpu_ms = Sample()
        self._counted: tuple[int, float] | None = None
        """Number of steps, and CPU seconds of the process, when they were last counted."""

    def add(self, step: StepTime) -> None:
        self.steps.append(step)
        self._sums = self._sums.plus(step)
        if self.steps.added == WARM_UP_STEPS:
            self._warm_up = self._sums

    def add_pause(self, pause: Pause) -> None:
        self.pauses.append(pause)
        self._checkpoint_s += pause.dur_s if pause.name == "checkpoint" else 0.0

    def totals(self) -> rank.Progress:
        """Sums over all steps, the warm-up included."""
        return rank.Progress(self.steps.added, self._sums.examples, self._sums.dur_s, self._sums.wait_s)

    def count_cpu(self, cpu_s: float) -> None:
        """Takes the CPU seconds of this process so far: what is new belongs to the new steps, if they are enough."""
        steps = self.steps.added
        if self._counted is None:
            self._counted = (steps, cpu_s) if steps > WARM_UP_STEPS else None
        elif steps - self._counted[0] >= CPU_STEPS:
            self._cpu_ms.extend([1e3 * (cpu_s - self._counted[1]) / (steps - self._counted[0])])
            self._counted = steps, cpu_s

    @contextlib.contextmanager
    def pause(self, name: str, clock: Clock) -> Iterator[None]:
        """Records the body of the `with` statement as a pause."""
        began_s = clock.monotonic()
        try:
            yield
        finally:
            self.add_pause(Pause(name, began_s, clock.monotonic() - began_s))

    def measured(self, field: str) -> np.ndarray:
        """A field of a sample of the steps after the warm-up; of all steps of a run that has no others: float64 [n]."""
        return self.steps.sample(field, WARM_UP_STEPS if self.steps.added > WARM_UP_STEPS else 0)

    @property
    def compute_s(self) -> float:
        """Seconds of the measured steps without their waits."""
        measured = self._measured
        return measured.dur_s - measured.wait_s

    def step_ms(self) -> Spread | None:
        """Duration of a measured step in milliseconds; None before the first step."""
        return Spread.of(_ms(self.measured("dur_s"))) if self.steps else None

    def wait_ms(self) -> Spread | None:
        """Wait for data in a measured step in milliseconds; None before the first step."""
        return Spread.of(_ms(self.measured("wait_s"))) if self.steps else None

    def wait_pct(self) -> float | None:
        """Wait share of the measured steps, 0 to 100; None before the first step."""
        return self._measured.wait_pct

    def examples_per_s(self) -> float | None:
        """Throughput of all ranks over the measured steps; None before the first step."""
        measured = self._measured
        return measured.examples / measured.dur_s if measured.dur_s else None

    @property
    def _measured(self) -> _Sums:
        return self._sums.minus(self._warm_up) if self.steps.added > WARM_UP_STEPS else self._sums

    def parts_ms(self) -> dict[str, float]:
        """Median milliseconds of each component of the measured steps; `allreduce` only where it is known in all."""
        if not self.steps:
            return {}
        names = ("dur_s", "wait_s", "copy_s", "allreduce_s")
        dur_s, wait_s, copy_s, allreduce_s = map(self.measured, names)
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
            "steps": self.steps.added,
            "step_ms": self.step_ms(),
            "wait_ms": self.wait_ms(),
            "slow_steps": tuple(
                {"step": step.step, "dur_ms": 1e3 * step.dur_s, "wait_ms": 1e3 * step.wait_s}
                for step in self.steps.longest_waits()
            ),
            "step_parts_ms": self.parts_ms(),
            "cpu_ms": Spread.of(self._cpu_ms.values) if self._cpu_ms.values else None,
            "checkpoint_s": self._checkpoint_s,
            "wait_pct": self.wait_pct(),
            "examples_per_s": self.examples_per_s(),
        }
        return RunSummary(job_id=job.job_id, mode=job.mode, **(measured | more))

    def has_news(self, waiting_s: float = 0.0) -> bool:
        """Whether `line` has a step or a wait that the last one had not."""
        return self._sums.steps > self._at_line.steps or waiting_s > self._counted_s

    def line(self, step: int, epoch: int, loss: float | None, waiting_s: float = 0.0) -> MetricLine:
        """The metric line of the steps since the last one, without the warm-up if others follow it. waiting_s: seconds
        that the rank has waited for a batch so far, which count although no step has ended."""
        if self._at_line.steps < WARM_UP_STEPS < self.steps.added:
            self._at_line, self._counted_s = self._warm_up, 0.0
        recent, self._at_line = self._sums.minus(self._at_line), self._sums
        new_s = waiting_s - self._counted_s if recent.steps or waiting_s else 0.0
        self._counted_s = waiting_s if recent.steps or waiting_s else self._counted_s
        recent = replace(recent, dur_s=max(0.0, recent.dur_s + new_s), wait_s=max(0.0, recent.wait_s + new_s))
        return MetricLine(
            step,
            epoch,
            step_ms=1e3 * recent.dur_s / max(1, recent.steps),
            examples_per_s=recent.examples / recent.dur_s if recent.dur_s else 0.0,
            wait_pct=recent.wait_pct or 0.0,
            loss=loss,
        )


@dataclass(frozen=True)
class _Sums:
    """Sums over steps."""

    steps: int = 0
    dur_s: float = 0.0
    wait_s: float = 0.0
    examples: float = 0.0

    def plus(self, step: StepTime) -> _Sums:
        return _Sums(self.steps + 1, self.dur_s + step.dur_s, self.wait_s + step.wait_s, self.examples + step.examples)

    def minus(self, earlier: _Sums) -> _Sums:
        return _Sums(
            self.steps - earlier.steps,
            self.dur_s - earlier.dur_s,
            self.wait_s - earlier.wait_s,
            self.examples - earlier.examples,
        )

    @property
    def wait_pct(self) -> float | None:
        return min(100.0, 100 * self.wait_s / self.dur_s) if self.dur_s else None


def _ms(seconds: Iterable[float]) -> list[float]:
    return [1e3 * float(each) for each in seconds]


class Journal:
    """Writes the steps and pauses of a meter to the run's timeline, if the launcher asked for step times. Between two
    calls of `write` it costs nothing, and a disk that stalls holds up no step. Its file has at most MOST_LINES lines
    and the new ones: it is written again with what the meter has kept."""

    def __init__(self, job: JobContext, meter: Meter, clock: Clock = SYSTEM):
        folder = job.timeline_dir
        self._file = TimelineFile(Path(folder) / f"steps-{job.rank}.jsonl") if folder else None
        self._begin = self._file.size() if self._file else 0
        self._writer = Writer("journal", self._append) if folder else None
        self._job, self._meter = job, meter
        self._steps = self._pauses = self._lines = 0
        # Taken once: if the system's clock were adjusted in between, steps would overlap.
        self._ahead_s = clock.wall() - clock.monotonic()

    def follow(self, meter: Meter) -> None:
        """Writes the steps of another meter from now on, instead of those that were written."""
        if meter is not self._meter:
            self._meter, self._lines = meter, MOST_LINES

    def write(self, is_last: bool = False) -> None:
        """Writes what is new since the last call. The last call waits for the disk."""
        if self._writer is None:
            return
        steps, pauses = self._meter.steps, self._meter.pauses
        new: list[StepTime | Pause] | None = None
        if self._lines < MOST_LINES:
            new_steps, new_pauses = steps.last(steps.added - self._steps), pauses.last(pauses.added - self._pauses)
            new = None if new_steps is None or new_pauses is None else [*new_steps, *new_pauses]
        is_whole = new is None
        new = [*steps, *pauses] if new is None else new
        self._steps, self._pauses = steps.added, pauses.added
        self._lines = len(new) + (0 if is_whole else self._lines)
        rank, host = self._job.rank, self._job.host
        entries = [replace(each, at_s=each.at_s + self._ahead_s, rank=rank, host=host) for each in new]
        self._writer.put((is_whole, entries))
        if is_last:
            self._writer.close()

    def _append(self, entry: tuple[bool, Sequence[StepTime | Pause]]) -> None:
        """An error of the disk ends the journal, not the training."""
        is_whole, entries = entry
        try:
            if self._file is not None:
                self._file.append(entries, self._begin if is_whole else None)
        except OSError as error:
            log.warning("the times of the steps are not written any more: %s", error)
            self._file = None
