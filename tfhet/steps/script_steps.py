"""The steps of a training script, as the launcher and the run's record have them: nothing in the script calls this.

`tfhet.distribute` notes the deliveries of its data sets; a thread turns the notes into steps, and reports them as the
built-in trainer does: totals and metric lines to the launcher, the timeline, and the summary of the run.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import math
import threading
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import environment
from tfhet.messages import ProcessChannel, inherited, rank
from tfhet.process import answer_with_stack, stack_of_last_thread
from tfhet.record import Pause, RunFolder, RunSummary, Spread, StepTime, median
from tfhet.steps.finder import OTHER, TRAINING, VALIDATION, Moment, StepFinder
from tfhet.steps.meter import Journal, Meter
from tfhet.steps.note import Deliveries, NotedLoader
from tfhet.strategies import JobContext

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline
    from tfhet.steps.noted import NotedDataset

TAKE_S = 0.5
"""Seconds between two looks at the notes."""
LINE_S = 10.0
"""Seconds between two metric lines, and between two summaries: a script that is killed has left the last one."""
LAST_S = 5.0
"""Seconds after which a script is said to wait for one of its threads, at its end."""
NO_IDS = "a plain tf.data.Dataset has no ids; a tfhet.Pipeline has"
NO_LOADER_IDS = "the batches of an iterable have no ids; those of a map-style dataset with batch_size have"
NO_OP = "the op that takes the ids could not be built (it needs a C++ compiler)"
NO_COUNT = "the source does not know its number of examples"
"""Why the record does not say how often each example came."""
log = logging.getLogger("tfhet")


@dataclass
class OwnStep:
    """One step of a script that says where it begins and ends."""

    loss: Any = None
    """Loss of the step, a number or a scalar tensor; it is read when a metric line is due."""


class ScriptSteps:
    """Steps of the script in this process. Its first data set for training is the one whose batches are steps."""

    _of_process: ScriptSteps | None = None

    def __init__(self, job: JobContext, channel: ProcessChannel, clock: Clock = SYSTEM):
        self.meter = Meter()
        self._job, self._channel, self._clock = job, channel, clock
        self._journal = Journal(job, self.meter, clock)
        self._finder = StepFinder()
        self._sets: list[tuple[str, NotedDataset | NotedLoader]] = []
        self._ends: deque[float] = deque()
        self._delivery_ms = array("d")
        self._loss: Any = None
        self._facts: dict[str, Any] = {}
        self._deliveries: Deliveries | None = None
        self._taken = 0
        self._first_batch_s: float | None = None
        self._line_s = clock.monotonic()
        self._batch_size = 0
        self._written: bytes | None = None
        """Digest of the summary that was written last."""
        self._epochs: dict[int, dict[str, Any]] = {}
        self._taking, self._closes = threading.Lock(), threading.Event()

    @classmethod
    def of_process(cls, job: JobContext) -> ScriptSteps | None:
        """As `here`, which it makes if a launcher has started this process."""
        if cls._of_process is None and (job.record_dir or job.timeline_dir):
            cls._of_process = found = cls(job, inherited(environment()))
            answer_with_stack()
            atexit.register(found.close)
            threading.Thread(target=found._run, name="tfhet-steps", daemon=True).start()
        return cls._of_process

    @classmethod
    def here(cls) -> ScriptSteps | None:
        """Those of this process, once it has called `tfhet.distribute`; None where no launcher hears of them."""
        return cls._of_process

    def takes_ids(self, training: bool) -> bool:
        """Whether `watch` takes the ids of a pipeline's data set: the first one for training, with the compiled op."""
        from tfhet import native

        return self._kind(training) == TRAINING and native.ops("deliveries") is not None

    def watch(
        self, dataset: tf.data.Dataset, training: bool = True, pipeline: Pipeline | None = None
    ) -> tf.data.Dataset:
        """The same data set; its deliveries, and those of what is made of it, are noted. pipeline: what it is of. Where
        this `takes_ids`, its elements end with ids and epochs, which are taken off."""
        # Here, since a script that reads from no data set does without TensorFlow.
        from tfhet import native
        from tfhet.steps.declared import facts, late_passes
        from tfhet.steps.noted import NotedDataset

        has_ids, kind = pipeline is not None and self.takes_ids(training), self._kind(training)
        noted = NotedDataset(dataset, native.ops("deliveries"), has_ids)
        if kind == TRAINING and pipeline is None:
            self._facts = {"not_counted": NO_IDS}
        elif kind == TRAINING and pipeline is not None:
            expected = pipeline.source.example_count()
            lacks = None if expected is not None else NO_COUNT
            self._facts = {"not_counted": lacks if has_ids else NO_OP, **facts(pipeline, self._job)}
            self._deliveries = Deliveries(noted.take_ids, expected, late_passes(pipeline)) if has_ids else None
        self._sets.append((kind, noted))
        return noted.dataset

    def watch_loader(self, training: bool, has_ids: bool) -> NotedLoader:
        """Where an iterable of Python notes its deliveries. has_ids: whether its batches come with ids."""
        noted = NotedLoader()
        if self._kind(training) == TRAINING:
            self._facts = {} if has_ids else {"not_counted": NO_LOADER_IDS}
            self._deliveries = Deliveries(noted.take_ids, None) if has_ids else None
        self._sets.append((self._kind(training), noted))
        return noted

    def expect_examples(self, count: int) -> None:
        """Says how many examples a pass over the training data has, where its loader has ids."""
        if self._deliveries is not None:
            self._deliveries.expected = count

    def _kind(self, training: bool) -> str:
        is_first = all(of != TRAINING for of, _ in self._sets)
        return VALIDATION if not training else TRAINING if is_first else OTHER

    def expect_ends(self) -> None:
        """From now on, steps end where `end_step` is called, and nowhere else."""
        self._finder.says_ends = True

    def end_step(self, loss: Any = None) -> None:
        self._loss = loss
        self._ends.append(self._clock.monotonic())

    def take(self, is_last: bool = False) -> None:
        with self._taking:
            events = sorted(self._events(), key=lambda event: event.at_s)
            found = [each for event in events for each in self._finder.add(event)]
            if is_last:
                found += self._finder.close(self._clock.monotonic())
            for each in found:
                if isinstance(each, Pause):
                    self.meter.pauses.append(each)
                else:
                    self._count(each)
            if not is_last:  # what a script does after its last step is none of the steps'
                self.meter.count_cpu(self._clock.cpu())
            if events:
                self._channel.send(self.meter.totals(), limit_s=0.1)
            self._journal.write(is_last)
            is_due = is_last or self._clock.monotonic() >= self._line_s + LINE_S
            limit_s = 1.0 if is_last else 0.1
            for report in self._deliveries.take(is_due) if self._deliveries else ():
                self._channel.send(report, limit_s)
            if is_due and self.meter.steps:
                self._line_s = self._clock.monotonic()
                self._channel.send(self._standing(), limit_s)
                if self._job.rank == 0:
                    self._report()

    def close(self) -> None:
        self._closes.set()
        with contextlib.suppress(Exception):  # the exit code of the script must not change
            self.take(is_last=True)

    def _run(self) -> None:
        has_failed = has_said = False
        goes_on_s = self._clock.monotonic()
        while not self._closes.wait(TAKE_S):
            if not (last := stack_of_last_thread()):
                goes_on_s = self._clock.monotonic()
            elif not has_said and self._clock.monotonic() >= goes_on_s + LAST_S:
                print(f"[tfhet] the script is over, and waits for its {last}", flush=True)
                has_said = True
            try:
                self.take()
            except Exception as error:  # noqa: BLE001  neither the script nor its launcher may suffer from it
                if not has_failed:
                    log.warning("the steps of this script may be incomplete: %s: %s", type(error).__name__, error)
                has_failed = True
                # The launcher would take silence for a script that hangs.
                self._channel.send(self.meter.totals())

    def _events(self) -> Iterator[Moment]:
        for of, noted in self._sets:
            for note in noted.take():
                wait_s = note.delivered_s - note.asked_s
                self._taken += (note.examples or 0) if of == TRAINING else 0
                begins = note.index == 0 and note.examples is not None
                yield Moment(note.asked_s, of, wait_s, note.examples, begins)
                if self._first_batch_s is None and of == TRAINING:
                    self._first_batch_s = wait_s
            deliveries = [each for each in noted.take_deliveries() if each.examples is not None]
            if of == TRAINING:
                self._delivery_ms.extend(1e3 * (each.delivered_s - each.asked_s) for each in deliveries)
        while self._ends:
            yield Moment(self._ends.popleft(), ends_step=True)

    def _count(self, step: StepTime) -> None:
        self._batch_size = max(self._batch_size, int(step.examples))
        examples = step.examples * self._job.size
        self.meter.add(replace(step, step=len(self.meter.steps) + 1, examples=examples))
        epoch = self._epochs.setdefault(step.epoch, {"epoch": step.epoch, "steps": 0, "examples": 0})
        epoch["steps"] += 1
        epoch["examples"] += int(examples)

    def _report(self) -> None:
        """Sends a metric line, which the launcher prints, and writes the summary."""
        line = self.meter.line(len(self.meter.steps), self._finder.epoch, _number(self._loss))
        self._channel.send(rank.Metrics(line.exact()), limit_s=0.1)
        if self._job.record_dir:
            folder = RunFolder(Path(self._job.record_dir)).create()
            there = _digest(folder.summary_path) if folder.summary_path.exists() else None
            if there == self._written:  # else the script writes its own
                self._written = _digest(folder.write_summary(self._summary()))

    def _standing(self) -> rank.Standing:
        step_ms = 1e3 * median(self.meter.measured("dur_s"))
        delivered = self._deliveries.count if self._deliveries else 0
        unused = max(0, delivered - self._taken)
        return rank.Standing(len(self.meter.steps), step_ms, self.meter.wait_pct() or 0.0, delivered, unused)

    def _summary(self) -> RunSummary:
        return self.meter.summary(
            self._job,
            **{"batch_size": self._batch_size, **self._facts},
            delivery_ms=Spread.of(self._delivery_ms) if self._delivery_ms else None,
            first_batch_s=self._first_batch_s,
            epochs=list(self._epochs.values()),
        )


def _digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


def _number(loss: Any) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        value = float(loss)
        return value if math.isfinite(value) else None
    return None


@contextlib.contextmanager
def step() -> Iterator[OwnStep]:
    """A step of a training script: several batches may belong to it, and what follows it is not part of it. Optional.
    Without it, a step is what a script does between two batches. Costs nothing without a launcher."""
    this, steps = OwnStep(), ScriptSteps.here()
    if steps is not None:
        steps.expect_ends()
    yield this
    if steps is not None:
        steps.end_step(this.loss)
