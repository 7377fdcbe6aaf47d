"""The step loop: epochs of steps that all ranks take together, and what is learned about them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import DataError
from tfhet.messages import MetricLine
from tfhet.planes import Delivery, Reader
from tfhet.record.step_time import StepTime
from tfhet.strategies import Collective
from tfhet.trainer.audit import Audit, Visits
from tfhet.trainer.meter import Meter
from tfhet.trainer.parts import Parts, Skipped
from tfhet.trainer.standing import Begun, Course, Taken, Totals
from tfhet.trainer.step import Accelerator, Batch

OnLine = Callable[[str], None]


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
    """Told, before each step, how many epochs are done, fractions included: the learning rate depends on it."""
    on_line: OnLine = lambda line: None
    on_metrics: Callable[[MetricLine], None] = lambda line: None
    """Told what a metric line says, once it is printed; on rank 0."""
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
    _audit: Audit | None = None
    _number: int = 0
    _visits: list[Visits] = field(default_factory=list)
    _stream: Iterator[Iterator[Delivery]] | None = None
    _deliveries: Iterator[Delivery] | None = None

    def agree(self) -> None:
        """Before the first epoch, on every rank, and again when the data service began anew."""
        self.reader.agree()
        gone = self.reader.is_served and self.collective.rank == 0 and not self.reader.has_servers(self.is_told_to_stop)
        (alone,) = self.collective.total([float(gone)], "agreed")  # and nobody reads before all are here
        if alone:
            if self.collective.rank == 0:
                self.on_line("[tfhet] no data host is left: the ranks prepare their data themselves")
            self.reader.go_local()

    def close(self) -> None:
        """Gives up what is being read."""
        for reading in (self._deliveries, self._stream):
            if isinstance(reading, Generator):
                reading.close()
        self._deliveries = self._stream = None

    def epoch(self, epoch: int, steps: int = 0, begun: Begun | None = None) -> dict[str, Any]:
        """One pass over the data; or, with `steps`, that many steps of pass after pass. Returns what was measured.

        What a part of the data service took with it when it died is read again, so a pass is read in parts. `begun`:
        what earlier runs did of the epoch and the pass, which is left out.
        """
        begun = begun or Begun(number=epoch)
        course = Course(epoch, steps, self.step - begun.steps, self._steps_expected(steps))
        if not steps or self._stream is None:
            self.close()
            self._stream = self._passes(begun, endless=bool(steps))
        was_done = course.is_done(self.step)
        while not self.stopped and not course.is_done(self.step):
            self._deliveries = self._deliveries or next(self._stream, None)
            if self._deliveries is None:
                break
            if self._take(self._deliveries, course):
                self._deliveries = None
        if was_done:  # an earlier run stopped just at the end
            self.begun = begun
        elif self.stopped or steps:
            self._stand(course)
        if self.stopped and not steps and self._audit is not None:
            self._visits = [self._audit.visits()]
        self.on_epoch_end()
        taken = self.step - course.first - begun.steps
        result: dict[str, Any] = {"epoch": epoch, "steps": taken, "examples": int(course.totals.examples)}
        if self.accelerator.learns:
            result.update(course.totals.means())
        if self._visits:
            result.update(asdict(Visits.total(self._visits)))
            self._visits = []
        return result

    def _passes(self, begun: Begun, endless: bool) -> Iterator[Iterator[Delivery]]:
        """The parts of a pass over the data; `endless`: of one pass after another. What is behind a `yield` happens
        when every rank is dry. Raises DataError for a pass without an example, after which there would be none."""
        number, seen, source = begun.number, begun.seen, self.reader.pipeline.source
        while True:
            first, self._number = self.step, number
            self._audit = Audit(source, seen, self.skipped.ids if self.skipped else None) if self.audit else None
            parts = Parts(
                self.reader,
                self.collective,
                number,
                self._audit,
                self.skipped,
                agree=self.agree,
                may_lose=endless,
            )
            yield from parts
            if self._audit is not None:
                self._visits.append(self._audit.visits())
            if not endless:
                return
            if self.step == first and seen is None and not parts.was_cut_off:
                raise DataError(f"there is no example in {source.split_count()} splits: nothing to train on")
            number, seen = number + 1, None

    def _stand(self, course: Course) -> None:
        """Notes where the training stands; every rank does."""
        seen = None
        if self._audit is not None:
            self._audit.exchange(self.collective)
            seen = self._audit.seen
        self.begun = Begun(self.step - course.first, self._number, seen if seen is not None and seen.size else None)

    def _steps_expected(self, steps: int) -> int:
        """In one epoch, more or less: the learning rate moves by it."""
        expected = self.reader.pipeline.source.example_count()
        per_step = self.reader.pipeline.batch_size * self.collective.size * self.accumulate
        return steps or max(1, -(-(expected or per_step) // per_step))

    def _take(self, deliveries: Iterator[Delivery], course: Course) -> bool:
        """Takes steps until every rank is dry, which is True, or the steps of the epoch are done, or the ranks stop."""
        began = self.clock.monotonic()
        # The sums of a step are read one step later, so that an accelerator is never kept waiting for this process to
        # read them. A step too many after the last example changes nothing: its sums are zero, and it is not counted.
        unread: list[Taken] = []
        is_dry = False
        while not self.stopped and not is_dry and not course.is_done(self.step + len(unread)):
            done = (self.step - course.first + len(unread)) / course.steps_expected
            self.set_epoch(course.epoch + min(1.0, done))
            copied_s = self.accelerator.copied_s
            batch, wait_s = self._collect(deliveries)
            sums = self.accelerator.step(batch, self.is_told_to_stop())
            allreduce_s = self.accelerator.allreduce_s
            is_dry = bool(unread) and not self._count(unread.pop(), course)
            now = self.clock.monotonic()
            # What was waited for while the step before went on has cost nothing.
            waited_s = min(wait_s, self.accelerator.idle_s)
            parts = (waited_s, self.accelerator.copied_s - copied_s, allreduce_s)
            unread.append(Taken(sums, began, now - began, *parts))
            began = now
            if self.save_every and not is_dry and (self.step + 1) % self.save_every == 0:
                is_dry = not self._count(unread.pop(), course)
                if not is_dry:
                    self._stand(course)
                    self.on_save(course.epoch, self.begun)
                    began = self.clock.monotonic()
        for last in unread:
            is_dry = not self._count(last, course) or is_dry
        return is_dry

    def evaluate(self, reader: Reader) -> dict[str, float]:
        """Loss and accuracy over a validation set, each rank its share, as `val_loss` and `val_accuracy`; and how many
        examples were skipped, as `val_bad`, if any."""
        totals, audit = Totals(), Audit(reader.pipeline.source) if self.skipped is not None else None

        def take(deliveries: Iterator[Delivery]) -> None:
            for delivery in deliveries:
                if self.is_told_to_stop():  # nobody will look at the result
                    return
                totals.add(_read(self.accelerator.evaluate((delivery.images, delivery.labels))))
                self.on_progress()
                if audit is not None:
                    audit.saw(delivery.ids)

        with self.meter.pause("validation", self.clock):
            take(reader.epoch(0))  # not served, so that nobody has to offer it
            if audit is not None:
                audit.exchange(self.collective)
                take(reader.singly(0, audit.missing()))
            everywhere = self.collective.total([totals.examples, totals.loss, totals.correct], "validation")
        means = Totals(*everywhere).means("val_")
        bad = (reader.pipeline.source.example_count() or 0) - int(everywhere[0]) if audit is not None else 0
        return {**means, "val_bad": bad} if bad > 0 else means

    def agree_to_stop(self) -> bool:
        """Between epochs, on every rank: whether one of them was told to stop."""
        (votes,) = self.collective.total([float(self.is_told_to_stop())], "stop")
        self.stopped = self.stopped or votes > 0
        return self.stopped

    def _count(self, taken: Taken, course: Course) -> bool:
        """Counts a step that was taken; False when it was none, because every rank is dry."""
        *counts, votes = _read(taken.sums)
        self.stopped = self.stopped or votes > 0
        if not counts[0]:
            return False
        self.step += 1
        self.on_progress()
        course.totals.add(counts)
        allreduce_s = float(taken.allreduce_s)
        told_s = None if math.isnan(allreduce_s) else min(max(0.0, allreduce_s), taken.step_s)
        place = (taken.began_s, self.step, course.epoch)
        self.meter.add(StepTime(taken.step_s, taken.wait_s, counts[0], taken.copy_s, told_s, *place))
        if self.step % self.log_every == 0 and self.collective.rank == 0:
            loss = course.totals.means().get("loss") if self.accelerator.learns else None
            line = self.meter.line(self.step, course.epoch, loss)
            self.on_line(str(line))
            self.on_metrics(line)
        return True

    def _collect(self, deliveries: Iterator[Delivery]) -> tuple[Batch | None, float]:
        """The last batch of one step, those before it already accumulated, and how long all were waited for."""
        batch: Batch | None = None
        wait_s = 0.0
        for delivery in itertools.islice(deliveries, self.accumulate):
            if batch is not None:
                self.accelerator.accumulate(batch)
            batch = delivery.images, delivery.labels
            wait_s += delivery.wait_s
            self.batches += 1
            if self._audit is not None:
                self._audit.saw(delivery.ids)
        return batch, wait_s


def _read(counts: Any) -> list[float]:
    return [float(count) for count in np.asarray(counts, np.float64)]
