"""The step loop: epochs of steps that all ranks take together, and what is learned about them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.trainer.audit import Audit
from tfhet.trainer.collective import Collective
from tfhet.trainer.feed import Delivery, Feed
from tfhet.trainer.meter import Meter, StepTime
from tfhet.trainer.step import Accelerator, Batch

OnLine = Callable[[str], None]


@dataclass
class Totals:
    """Sums over the examples of an epoch, all ranks together."""

    examples: float = 0.0
    loss: float = 0.0
    correct: float = 0.0

    def add(self, counts: tuple[float, float, float]) -> None:
        self.examples += counts[0]
        self.loss += counts[1]
        self.correct += counts[2]

    def means(self, prefix: str = "") -> dict[str, float]:
        """Loss and accuracy per example; nothing when there were none."""
        if not self.examples:
            return {}
        return {f"{prefix}loss": self.loss / self.examples, f"{prefix}accuracy": self.correct / self.examples}


@dataclass(frozen=True)
class _Taken:
    """A step whose sums may still be under way."""

    sums: Any
    step_s: float
    wait_s: float


@dataclass
class Loop:
    """Runs the steps of one rank. All ranks construct it alike."""

    feed: Feed
    accelerator: Accelerator
    collective: Collective
    accumulate: int = 1
    """Batches in a step."""
    audit: bool = True
    log_every: int = 10
    set_epoch: Callable[[float], None] = lambda epoch: None
    """Told, before each step, how many epochs are done, fractions included: the learning rate depends on it."""
    on_line: OnLine = lambda line: None
    on_epoch_end: Callable[[], None] = lambda: None
    """Called on every rank after the steps of an epoch."""
    clock: Clock = SYSTEM
    meter: Meter = field(default_factory=Meter)
    step: int = 0
    """Steps taken, over all epochs."""
    batches: int = 0
    """Batches that this rank was given, over all epochs."""
    _stream: Iterator[Delivery] | None = None

    def epoch(self, epoch: int, steps: int = 0) -> dict[str, Any]:
        """One pass over the data; or, with `steps`, that many steps of an endless stream. Returns what was measured."""
        if steps:
            self._stream = self._stream or self.feed.endless(epoch)
        deliveries = self._stream if steps and self._stream else self.feed.epoch(epoch)
        expected = self.feed.pipeline.source.example_count()
        audit, totals = Audit(), Totals()
        per_step = self.feed.pipeline.batch_size * self.collective.size * self.accumulate
        steps_expected = steps or max(1, -(-(expected or per_step) // per_step))
        began = self.clock.monotonic()
        first = self.step
        # The sums of a step are read one step later, so that an accelerator is never kept waiting for this process to
        # read them. A step too many after the last example changes nothing: its sums are zero, and it is not counted.
        unread: list[_Taken] = []
        while not steps or self.step - first + len(unread) < steps:
            self.set_epoch(epoch + min(1.0, (self.step - first + len(unread)) / steps_expected))
            batch, wait_s = self._collect(deliveries, audit)
            sums = self.accelerator.step(batch)
            if unread and not self._count(unread.pop(), epoch, totals):
                break
            now = self.clock.monotonic()
            unread.append(_Taken(sums, now - began, wait_s))
            began = now
        for last in unread:
            self._count(last, epoch, totals)
        taken = self.step - first
        self.on_epoch_end()
        result: dict[str, Any] = {"epoch": epoch, "steps": taken, "examples": int(totals.examples)}
        if self.accelerator.learns:
            result.update(totals.means())
        if self.audit and not steps:
            result.update(asdict(audit.close(expected, self.collective)))
        return result

    def evaluate(self, feed: Feed) -> dict[str, float]:
        """Loss and accuracy over a validation set, each rank its share, as `val_loss` and `val_accuracy`."""
        totals = Totals()
        for delivery in feed.epoch(0):
            totals.add(_read(self.accelerator.evaluate((delivery.images, delivery.labels))))
        everywhere = self.collective.total([totals.examples, totals.loss, totals.correct], "validation")
        return Totals(*everywhere).means("val_")

    def _count(self, taken: _Taken, epoch: int, totals: Totals) -> bool:
        """Counts a step that was taken; False when it was none, because every rank is dry."""
        counts = _read(taken.sums)
        if not counts[0]:
            return False
        self.step += 1
        totals.add(counts)
        self.meter.add(StepTime(taken.step_s, taken.wait_s, counts[0]))
        if self.step % self.log_every == 0 and self.collective.rank == 0:
            loss = totals.means().get("loss") if self.accelerator.learns else None
            self.on_line(self.meter.line(self.step, epoch, loss))
        return True

    def _collect(self, deliveries: Iterator[Delivery], audit: Audit) -> tuple[Batch | None, float]:
        """The last batch of one step, those before it already accumulated, and how long all were waited for."""
        batch: Batch | None = None
        wait_s = 0.0
        for delivery in itertools.islice(deliveries, self.accumulate):
            if batch is not None:
                self.accelerator.accumulate(batch)
            batch = delivery.images, delivery.labels
            wait_s += delivery.wait_s
            self.batches += 1
            if self.audit:
                audit.saw(delivery.ids)
        return batch, wait_s


def _read(counts: Any) -> tuple[float, float, float]:
    examples, loss, correct = np.asarray(counts, np.float64)
    return float(examples), float(loss), float(correct)
