"""The step loop: epochs of steps that all ranks take together, what is measured of them, and where they stand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import DataError
from tfhet.messages import MetricLine
from tfhet.pipeline import Rest
from tfhet.planes import Delivery, Reader
from tfhet.record import StepTime, Visits
from tfhet.steps import Meter
from tfhet.strategies import Collective
from tfhet.trainer.audit import Audit
from tfhet.trainer.parts import AHEAD_S, Course, Parts, Skipped
from tfhet.trainer.step import Accelerator, Batch


@dataclass(frozen=True)
class Begun:
    """Where a training stands within an epoch, and within a pass over the data."""

    steps: int = 0
    """Steps taken in the epoch."""
    number: int = 0
    """Number of the pass: the epoch's, unless an epoch is a number of steps."""
    rest: Rest | None = None
    """The rest of the pass, None for all of it; rank 0 alone has what was `seen`."""


@dataclass
class Loop:
    """Runs the steps of one rank. All ranks construct it alike."""

    reader: Reader
    accelerator: Accelerator
    collective: Collective
    accumulate: int = 1
    """Batches in a step."""
    audit: bool = True
    log_every: int = 10
    set_epoch: Callable[[float], None] = lambda epoch: None
    """Called before each step with the number of epochs done, fractions included, for the learning rate."""
    on_metrics: Callable[[MetricLine], None] = lambda line: None
    """Called with each metric line; on rank 0."""
    on_epoch_end: Callable[[], None] = lambda: None
    """Called on every rank after the steps of an epoch."""
    on_progress: Callable[[], None] = lambda: None
    """Called after each step, and each batch of a validation, on every rank."""
    is_told_to_stop: Callable[[], bool] = lambda: False
    """Whether this rank should stop. All ranks do, after the same step, when one of them should."""
    save_every: int = 0
    """Steps between two calls of `on_save`; 0: none."""
    on_save: Callable[[int, Begun], None] = lambda epoch, begun: None
    """Called on every rank between two steps, with the epoch and what is done of it."""
    clock: Clock = SYSTEM
    meter: Meter = field(default_factory=Meter)
    step: int = 0
    """Steps taken, over all epochs."""
    batches: int = 0
    """Batches that this rank was given, over all epochs."""
    stopped: bool = False
    """Whether the ranks have agreed to stop."""
    begun: Begun = Begun()
    """Where the training stands: at the end of an epoch, in `on_save`, and after the ranks have stopped."""
    skipped: Skipped | None = None
    """The bad records of all epochs, where they are skipped; None: one is an error."""
    _parts: Parts | None = None
    """The parts of the pass that is being read; a pass may go on over the ends of epochs."""
    _part: Iterator[Delivery] | None = None
    """The part that is being read; None between two parts."""
    _pass_began: int = 0
    """Steps taken before that pass."""
    _audit: Audit | None = None
    """Account of that pass."""
    _visits: list[Visits] = field(default_factory=list)
    """Accounts of the passes that ended in this epoch."""

    def agree(self) -> None:
        """Called before the first epoch, on every rank, and again when the data service was restarted."""
        self.reader.agree()
        gone = self.reader.is_served and self.collective.rank == 0 and not self.reader.has_servers(self.is_told_to_stop)
        (alone,) = self.collective.total([float(gone)], "agreed")  # and no rank reads before all are here
        if alone:
            if self.collective.rank == 0:
                print("[tfhet] no data host is left: the ranks prepare their data themselves", flush=True)
            self.reader.go_local()

    def close(self) -> None:
        if isinstance(self._part, Generator):
            self._part.close()
        self._part = self._parts = None
        self.reader.close()

    def epoch(self, epoch: int, steps: int = 0, begun: Begun | None = None, is_last: bool = True) -> dict[str, Any]:
        """Takes the steps of one pass over the data, or `steps` steps of pass after pass. Returns what was measured.
        begun: what earlier runs did of the epoch and the pass, which is left out. is_last: whether no epoch follows; if
        one does, it is made ready while this one ends."""
        begun = begun or Begun(number=epoch)
        examples = self.reader.pipeline.source.example_count() or 1
        per_step = self.reader.pipeline.batch_size * self.collective.size * self.accumulate
        expected = steps or math.ceil(examples / per_step)
        course = Course(epoch, steps, self.step - begun.steps, expected, per_step, is_last)
        if not steps or self._parts is None:
            self._begin_pass(begun.number, begun.rest, endless=bool(steps))
        was_done = course.is_done(self.step)
        while not self.stopped and not course.is_done(self.step):
            if self._part is None and not self._open_part(endless=bool(steps)):
                break
            self._take(course)
        if was_done:  # an earlier run stopped just at the end
            self.begun = begun
        elif self.stopped or steps:
            self._stand(course)
        if self.stopped and not steps and self._audit is not None:
            self._visits = [self._audit.visits()]
        self.on_epoch_end()
        taken = self.step - course.first - begun.steps
        result: dict[str, Any] = {"epoch": epoch, "steps": taken, "examples": int(course.totals[0])}
        if self.accelerator.learns:
            result.update(_means(course.totals))
        if self._visits:
            result.update(asdict(Visits.total(self._visits)))
            self._visits = []
        return result

    def _begin_pass(self, number: int, rest: Rest | None, endless: bool) -> None:
        """Sets out on a pass. rest: what earlier runs have left of it; endless: another one follows."""
        bad = self.skipped.ids if self.skipped else ()
        self._pass_began = self.step
        self._audit = Audit(self.reader.pipeline.source, self.collective, rest, bad) if self.audit else None
        self._parts = Parts(
            self.reader, self.collective, number, self._audit, self.skipped, agree=self.agree, may_lose=endless
        )

    def _open_part(self, endless: bool) -> bool:
        """Opens the next part of the pass, or of the next pass if `endless`; False at the end of the pass. Every rank
        calls it when all ranks are dry. Raises DataError for a pass without an example."""
        while True:
            assert self._parts is not None
            self._part = self._parts.next()
            if self._part is not None:
                return True
            if self._audit is not None:
                self._visits.append(self._audit.visits())
            if not endless:
                return False
            is_whole = self._audit is None or not self._audit.is_resumed
            if self.step == self._pass_began and is_whole and not self._parts.was_cut_off:
                splits = self.reader.pipeline.source.split_count()
                raise DataError(f"there is no example in {splits} splits: nothing to train on")
            self._begin_pass(self._parts.number + 1, None, endless)

    def _stand(self, course: Course) -> None:
        """Notes where the training stands; every rank does."""
        rest = self._audit.standing() if self._audit else None
        self.begun = Begun(self.step - course.first, self._parts.number if self._parts else 0, rest)

    def _take(self, course: Course) -> None:
        """Takes steps until every rank is dry, the steps of the epoch are done, or the ranks stop."""
        assert self._part is not None and self._parts is not None
        began = self.clock.monotonic()
        # The sums of a step are read one step later, so that an accelerator is never kept waiting for this process to
        # read them. A step too many after the last example changes nothing: its sums are zero, and it is not counted.
        unread: list[tuple[Any, Any, StepTime]] = []
        is_dry = False
        while not self.stopped and not is_dry and not course.is_done(self.step + len(unread)):
            left = self._parts.left
            if unread and left <= course.per_step and course.is_followed(self.step, left):
                # That step may be the last. Knowing it spares the next pass the wait until every reader has found its
                # end, which takes a data service a tenth of a second, and steps without an example.
                is_dry = not self._count(*unread.pop(), course)
                if self._parts.left <= 0 and not self.stopped:
                    self._parts.leave(self._part)
                    is_dry = True
                continue
            done = (self.step - course.first + len(unread)) / course.steps_expected
            self.set_epoch(course.epoch + min(1.0, done))
            copied_s = self.accelerator.copied_s
            batch, wait_s = self._collect(self._part)
            sums = self.accelerator.step(batch, self.is_told_to_stop())
            allreduce_s = self.accelerator.allreduce_s
            is_dry = bool(unread) and not self._count(*unread.pop(), course)
            now = self.clock.monotonic()
            time = StepTime(
                dur_s=now - began,
                wait_s=min(wait_s, self.accelerator.idle_s),  # waiting during the step before costs nothing
                copy_s=self.accelerator.copied_s - copied_s,
                at_s=began,
                epoch=course.epoch,
            )
            unread.append((sums, allreduce_s, time))
            began = now
            if self.save_every and not is_dry and (self.step + 1) % self.save_every == 0:
                is_dry = not self._count(*unread.pop(), course)
                if not is_dry:
                    self._stand(course)
                    self.on_save(course.epoch, self.begun)
                    began = self.clock.monotonic()
        for last in unread:
            is_dry = not self._count(*last, course) or is_dry
        if is_dry:
            self._part = None

    def evaluate(self, reader: Reader) -> dict[str, float]:
        """Loss and accuracy over a validation set, each rank reading its share, as `val_loss` and
        `val_accuracy`; and the number of skipped examples, if any, as `val_bad`."""
        totals, audit = np.zeros(3), Audit(reader.pipeline.source, self.collective) if self.skipped else None

        def take(deliveries: Iterator[Delivery]) -> None:
            nonlocal totals
            for delivery in deliveries:
                if self.is_told_to_stop():  # the result will not be used
                    return
                totals += np.asarray(self.accelerator.evaluate((delivery.images, delivery.labels)), np.float64)
                self.on_progress()
                if audit is not None:
                    audit.saw(delivery.ids)

        with self.meter.pause("validation", self.clock):
            take(reader.epoch(0))  # not served, so no rank has to offer it
            if audit is not None:
                audit.exchange()
                take(reader.singly(0, audit.missing()))
            everywhere = self.collective.total(totals.tolist(), "validation")
        bad = (reader.pipeline.source.example_count() or 0) - int(everywhere[0]) if audit is not None else 0
        return _means(everywhere, "val_") | ({"val_bad": bad} if bad > 0 else {})

    def agree_to_stop(self) -> bool:
        """Whether one of the ranks should stop; called between epochs, on every rank."""
        (votes,) = self.collective.total([float(self.is_told_to_stop())], "stop")
        self.stopped = self.stopped or votes > 0
        return self.stopped

    def _count(self, sums: Any, allreduce_s: Any, time: StepTime, course: Course) -> bool:
        """Counts a step that was taken; False when it was none, because every rank is dry."""
        *counts, votes = np.asarray(sums, np.float64).tolist()
        self.stopped = self.stopped or votes > 0
        if not counts[0]:
            return False
        self.step += 1
        if self._parts is not None:
            self._parts.left -= counts[0]
            left = self._parts.left
            if course.is_followed(self.step, left) and course.steps_left(left) * time.dur_s <= AHEAD_S:
                self._parts.make_next_ready()
        self.on_progress()
        course.totals += counts
        seconds = float(allreduce_s)
        known_s = None if math.isnan(seconds) else min(max(0.0, seconds), time.dur_s)
        self.meter.add(replace(time, examples=counts[0], allreduce_s=known_s, step=self.step))
        if self.step % self.log_every == 0 and self.collective.rank == 0:
            loss = _means(course.totals).get("loss") if self.accelerator.learns else None
            self.on_metrics(self.meter.line(self.step, course.epoch, loss))
        return True

    def _collect(self, part: Iterator[Delivery]) -> tuple[Batch | None, float]:
        """The last batch of one step, after accumulating those before it, and the seconds waited for all of them."""
        batch: Batch | None = None
        wait_s = 0.0
        for delivery in itertools.islice(part, self.accumulate):
            if batch is not None:
                self.accelerator.accumulate(batch)
            batch = delivery.images, delivery.labels
            wait_s += delivery.wait_s
            self.batches += 1
            if self._audit is not None:
                self._audit.saw(delivery.ids)
        return batch, wait_s


def _means(totals: Sequence[float] | np.ndarray, prefix: str = "") -> dict[str, float]:
    """Loss and accuracy per example, from examples, loss sum and correct answers; nothing without examples."""
    examples, loss, correct = map(float, totals)
    return {f"{prefix}loss": loss / examples, f"{prefix}accuracy": correct / examples} if examples else {}
