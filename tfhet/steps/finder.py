"""The steps of a training script, found in the notes of its data sets' deliveries.

A step begins when the script asks its training data set for a batch. It ends where the script asks for the next one,
or for the end of the pass; or where the script says that it ends (`tfhet.step`). Batches of a data set for validation
between two steps are a pause. So are two or more batches of another training data set; a single one belongs to the
step.

Keras counts the batches of a pass and does not ask for its end: the last step of such a pass, and the one before a
validation, have no end that can be seen. Such a step ends where `StepCallback` was called last. Without the callback it
counts as long as its wait and the median of the computing of the steps before it; what is left until the next step is a
pause, `between epochs` or the validation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tfhet.record import Pause, StepTime, median

TRAINING, VALIDATION, OTHER = "training", "validation", "other"
ENDS, MAY_END = "ends", "may end"
"""What a script says of the step in progress: it ends; or it does if the script asks for no other batch of the pass."""
RECENT = 32
"""Number of steps before a step without an end that say how long it computed."""


@dataclass(frozen=True)
class Moment:
    """An event in a script: a batch, the end of a pass, or the end of a step."""

    at_s: float
    """When it was, on the monotonic clock; of a batch, when it was asked for."""
    of: str = TRAINING
    """The data that it concerns: TRAINING, VALIDATION, or OTHER training data."""
    wait_s: float = 0.0
    examples: int | None = None
    """Number of examples in a batch that was delivered; None for the end of a pass, and for what a script says."""
    begins_pass: bool = False
    says: str = ""
    """ENDS or MAY_END if the script says so; else it is a batch, or the end of a pass."""


@dataclass
class _Open:
    """A step that has not ended."""

    at_s: float
    wait_s: float
    examples: int


class StepFinder:
    """Finds the steps of one rank. Give it all events in order."""

    def __init__(self) -> None:
        self.epoch = 0
        """Number of the pass over the training data."""
        self._open: _Open | None = None
        self._others: list[Moment] = []
        """The first three of the other data's batches since the step began."""
        self._paused_s: tuple[str, float] | None = None
        """Name and beginning of the pause that goes on."""
        self._compute_s: deque[float] = deque(maxlen=RECENT)
        self.says_ends = False
        """Whether the script says where its steps end."""
        self._has_begun = False
        self._may_end_s = float("-inf")
        """When the script said last that a step may end."""

    def add(self, event: Moment) -> Iterator[StepTime | Pause]:
        """Takes an event; yields the steps and pauses that it ends. `examples` of a step are those of this rank."""
        if event.says == ENDS:
            self.says_ends = True
            yield from self._end(event.at_s)
        elif event.says == MAY_END:
            self._may_end_s = event.at_s
        elif event.of != TRAINING:
            yield from self._other(event)
        elif event.examples is not None:
            yield from self._batch(event)
        elif not self.says_ends:
            yield from self._end(event.at_s)
            self._paused_s = self._paused_s or ("between epochs", event.at_s)

    def close(self, at_s: float) -> Iterator[StepTime | Pause]:
        """Ends the last step, which nothing else ends."""
        if not self.says_ends:
            yield from self._end_unseen(at_s, "")

    def _batch(self, event: Moment) -> Iterator[StepTime | Pause]:
        assert event.examples is not None
        if self._open is not None and len(self._others) == 1 and self._others[0].of == OTHER:
            self._open.wait_s += self._others[0].wait_s
        self._others.clear()
        if not self.says_ends:
            yield from self._end_unseen(event.at_s, "between epochs") if event.begins_pass else self._end(event.at_s)
        self.epoch += event.begins_pass and self._has_begun
        self._has_begun = True
        if self._paused_s is not None:
            name, began_s = self._paused_s
            yield Pause(name, began_s, max(0.0, event.at_s - began_s))
            self._paused_s = None
        if self._open is None:
            self._open = _Open(event.at_s, event.wait_s, event.examples)
        else:  # more than one batch in a step
            self._open.wait_s += event.wait_s
            self._open.examples += event.examples

    def _other(self, event: Moment) -> Iterator[StepTime | Pause]:
        if event.examples is None:
            return
        if len(self._others) < 3:
            self._others.append(event)
        if event.of == VALIDATION or len(self._others) == 2:
            name, began_s = self._paused_s or ("", self._others[0].at_s)
            if name != "validation":
                yield from self._end_unseen(began_s, "validation")

    def _end(self, at_s: float) -> Iterator[StepTime]:
        step, self._open = self._open, None
        if step is not None:
            dur_s = max(step.wait_s, at_s - step.at_s)
            self._compute_s.append(dur_s - step.wait_s)
            yield StepTime(dur_s, step.wait_s, step.examples, at_s=step.at_s, epoch=self.epoch, allreduce_s=None)

    def _end_unseen(self, at_s: float, pause: str) -> Iterator[StepTime]:
        """Ends a step whose end no request shows, at `at_s` at the latest; a pause of that name begins there."""
        step = self._open
        if step is not None and step.at_s + step.wait_s <= self._may_end_s <= at_s:
            at_s = self._may_end_s
        elif step is not None and self._compute_s:
            at_s = min(at_s, step.at_s + step.wait_s + median(list(self._compute_s)))
        if step is not None or self._paused_s is not None:
            name, began_s = self._paused_s or (pause, at_s)
            self._paused_s = name if name == "validation" else pause, began_s
        yield from self._end(at_s)
