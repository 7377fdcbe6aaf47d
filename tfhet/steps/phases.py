"""The phases of a training script: each is its passes over one data set.

A script may read several data sets for training: it looks at some batches, adapts a normalization, trains, and trains
again with other data. Each phase has its own steps. The record of the run is of the phase that computed longest, and
metric lines are of the phase in progress.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

from tfhet.record import WARM_UP_STEPS, Pause, StepTime
from tfhet.steps.finder import ENDS, OTHER, TRAINING, VALIDATION, Moment, StepFinder
from tfhet.steps.kept import FirstAndLast
from tfhet.steps.meter import Meter

LOOK = 5
"""Maximum number of batches in a first pass that counts as a look at the data if the script gives it up."""
AHEAD = 1.25
"""Ratio by which a phase must have computed longer than the recorded one to take its place."""


class Phase:
    """The steps of one phase. size: number of ranks. parts: number of steps in which a batch is used."""

    def __init__(self, size: int, parts: int = 1, first_step: int = 0):
        self.meter = Meter()
        self.first_step = first_step
        """Number of steps of the phases before it."""
        self.batch_size = 0
        self._size, self._parts = size, parts
        self._finder = StepFinder()
        self._epochs: FirstAndLast[dict[str, Any]] = FirstAndLast()
        self._last_epoch: dict[str, Any] = {}
        self._batches = 0
        """Number of batches in its first pass, as long as it has only one."""
        self._is_first_pass, self._has_ended = True, False

    @property
    def epoch(self) -> int:
        return self._finder.epoch

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """Steps and examples of its passes: of the first and the last ones if there are many."""
        return list(self._epochs)

    @property
    def steps(self) -> int:
        return self.meter.steps.added

    def is_look(self) -> bool:
        """Whether it is a short pass that the script has not read to its end."""
        return self._is_first_pass and not self._has_ended and 0 < self._batches <= LOOK

    def add(self, event: Moment, length: int, says_ends: bool) -> None:
        """Takes an event. length: number of batches in a pass, negative if unknown. says_ends: whether the script says
        where steps end."""
        self._finder.says_ends |= says_ends
        if event.of == TRAINING and not event.says:
            self._is_first_pass &= not (event.begins_pass and self._batches > 0)
            self._batches += event.examples is not None
            self._has_ended |= event.examples is None or self._batches == length
        self._keep(self._finder.add(event))

    def close(self, at_s: float) -> None:
        self._keep(self._finder.close(at_s))

    def _keep(self, found: Iterable[StepTime | Pause]) -> None:
        for each in found:
            if isinstance(each, Pause):
                self.meter.add_pause(each)
            else:
                self._count(each)

    def _count(self, step: StepTime) -> None:
        if self._last_epoch.get("epoch") != step.epoch:
            self._last_epoch = {"epoch": step.epoch, "steps": 0, "examples": 0}
            self._epochs.append(self._last_epoch)
        self.batch_size = max(self.batch_size, int(step.examples))
        examples = step.examples * self._size
        self._last_epoch["steps"] += self._parts
        self._last_epoch["examples"] += int(examples)
        dur_s = step.dur_s - step.wait_s
        for part in range(self._parts):
            wait_s = 0.0 if part else step.wait_s
            at_s = step.at_s + part * dur_s / self._parts + (step.wait_s if part else 0.0)
            each = replace(step, dur_s=wait_s + dur_s / self._parts, wait_s=wait_s, at_s=at_s)
            self.meter.add(replace(each, step=self.steps + 1, examples=examples / self._parts))


class Phases:
    """The phases of one rank. Give it all events in order."""

    def __init__(self, size: int, parts: int = 1):
        self.says_ends = False
        """Whether the script says where its steps end."""
        self._size, self._parts = size, parts
        self._initial = Phase(size, parts)
        """The first phase, before it has a batch."""
        self._phases: dict[Hashable, Phase] = {}
        self._current: Hashable = None
        self._recorded: Hashable = None
        self._others = 0
        """Number of batches of other phases since the last one of the current phase."""

    @property
    def current(self) -> Phase:
        """The phase in progress: the last one that read two batches in a row."""
        return self._phases.get(self._current, self._initial)

    @property
    def recorded(self) -> Phase:
        """The phase that the record describes."""
        best = self._phases.get(self._recorded)
        for key, phase in self._phases.items():
            if best is None or _outranks(phase, best):
                self._recorded, best = key, phase
        return best or self._initial

    @property
    def recorded_key(self) -> Hashable:
        """The key of the phase that the record describes; None before the first phase."""
        return next((key for key, phase in self._phases.items() if phase is self.recorded), None)

    def add(self, event: Moment, key: Hashable = None, length: int = -1) -> None:
        """Takes an event of the phase `key`; of validation data, or the end of a step, without one."""
        self.says_ends |= event.says == ENDS
        if event.of != VALIDATION and not event.says:
            self._follow(event, key)
        for each, phase in self._phases.items():
            own = event if event.says or key is None else replace(event, of=TRAINING if each == key else OTHER)
            phase.add(own, length, self.says_ends)

    def close(self, at_s: float) -> None:
        for phase in self._phases.values():
            phase.close(at_s)

    def _follow(self, event: Moment, key: Hashable) -> None:
        """Makes the phase if it is new, or began with a look; and finds out which one is in progress."""
        phase = self._phases.get(key)
        if phase is None:
            self._phases[key] = Phase(self._size, self._parts) if self._phases else self._initial
        elif event.begins_pass and phase.is_look():
            self._phases[key] = Phase(self._size, self._parts, phase.first_step)
        if self._current is None:
            self._current = key
        self._others = self._others + 1 if key != self._current and event.examples is not None else 0
        if self._others == 2:
            before, self._current, self._others = self.current, key, 0
            if self.current.steps == 0 and before.steps > LOOK:
                self.current.first_step = before.first_step + before.steps


def _outranks(phase: Phase, other: Phase) -> bool:
    """Whether the record should be of `phase` instead of `other`: past its warm-up, and longer."""
    is_measured, is_other_measured = phase.steps > WARM_UP_STEPS, other.steps > WARM_UP_STEPS
    if is_measured and is_other_measured:
        return phase.meter.compute_s > AHEAD * other.meter.compute_s
    return is_measured or (not is_other_measured and phase.steps > other.steps)
