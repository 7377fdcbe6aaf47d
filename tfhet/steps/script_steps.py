"""The steps of a training script, as the launcher and the run's record have them: nothing in the script calls this.

`tfhet.distribute` notes the deliveries of its data sets; a thread turns the notes into steps, and reports them as the
built-in trainer does: totals and metric lines to the launcher, the timeline, and the summary of the run.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import threading
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet import strategies
from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import environment
from tfhet.messages import ProcessChannel, inherited, rank
from tfhet.process import answer_with_stack, stack_of_last_thread
from tfhet.record import RunFolder, RunSummary, Spread, median
from tfhet.steps.finder import ENDS, TRAINING, VALIDATION, Moment
from tfhet.steps.kept import Sample
from tfhet.steps.meter import Journal, Meter
from tfhet.steps.note import Deliveries, NotedLoader, NotedSet
from tfhet.steps.phases import LOOK, Phases
from tfhet.steps.training_pass import TrainingPasses
from tfhet.strategies import JobContext

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.pipeline import Pipeline
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
    """Steps of the script in this process. The examples of its first data set for training are counted."""

    _of_process: ScriptSteps | None = None

    def __init__(self, job: JobContext, channel: ProcessChannel, clock: Clock = SYSTEM):
        self._job, self._channel, self._clock = job, channel, clock
        strategy = strategies.chosen(job.strategy, job.size)
        self.passes = TrainingPasses(job, channel)
        self._phases = Phases(job.size, strategy.parts_of_batch(job.size))
        self._journal = Journal(job, self._phases.recorded.meter, clock)
        self._sets: list[NotedSet] = []
        self._said: deque[Moment] = deque()
        self._delivery_ms = Sample()
        self._loss: Any = None
        self._facts: dict[str, Any] = {}
        self._deliveries: Deliveries | None = None
        self._taken = 0
        self._first_batch_s: float | None = None
        self._has_asked = False
        self._line_s = clock.monotonic()
        self._written: bytes | None = None
        """Digest of the summary that was written last."""
        self._taking, self._closes = threading.Lock(), threading.Event()

    @property
    def meter(self) -> Meter:
        """The meter of the phase that the record describes."""
        return self._phases.recorded.meter

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

        return self._is_first(training) and native.ops("deliveries") is not None

    def watch(
        self, dataset: tf.data.Dataset, training: bool = True, pipeline: Pipeline | None = None, is_native: bool = False
    ) -> tf.data.Dataset:
        """The same data set; its deliveries, and those of what is made of it, are noted. pipeline: what it is of; if
        this `takes_ids`, its elements end with ids and epochs, which are taken off. is_native: see `facts`."""
        # Here, since a script that reads from no data set does without TensorFlow.
        from tfhet import native
        from tfhet.steps.declared import examples_in_epoch, facts, late_passes
        from tfhet.steps.noted import NotedDataset

        has_ids, is_first = pipeline is not None and self.takes_ids(training), self._is_first(training)
        noted = NotedDataset(dataset, native.ops("deliveries"), has_ids, self.passes if training else None)
        if is_first and pipeline is None:
            self._facts = {"not_counted": NO_IDS}
        elif is_first and pipeline is not None:
            expected = examples_in_epoch(pipeline, self._job)
            lacks = (NO_COUNT if expected is None else None) if has_ids else NO_OP
            self._facts = {"not_counted": lacks, **facts(pipeline, self._job, is_native)}
            late = 0 if is_native else late_passes(pipeline)
            self._deliveries = Deliveries(noted.take_ids, lambda: expected, late) if has_ids else None
        self._add(training, noted, f"{int(dataset.cardinality())} of {dataset.element_spec}")
        return noted.dataset

    def watch_loader(self, training: bool, source: str, facts: Mapping[str, Any]) -> NotedLoader:
        """Returns where an iterable of Python notes its deliveries. source: names what it reads. facts: for the record.
        An iterable that is made again, for example in each epoch, continues the notes of the earlier one."""
        name = f"loader of {source}"
        known = [each for each in self._sets if (each.name, each.is_training) == (name, training)]
        if known and isinstance(known[0].noted, NotedLoader):
            return known[0].noted
        noted, is_first = NotedLoader(), self._is_first(training)
        self._add(training, noted, name)
        if is_first:
            self._deliveries = Deliveries(noted.take_ids, lambda: noted.expected)
            self._facts = dict(facts)
        return noted

    def _add(self, training: bool, noted: NotedDataset | NotedLoader, name: str) -> None:
        """Adds a data set. One like it that was read to its end is of the same phase: a script may define it again."""
        alike = [each for each in self._sets if (each.name, each.is_training, each.is_read) == (name, training, True)]
        self._sets.append(NotedSet(training, noted, name, alike[-1].phase if alike else len(self._sets)))

    def _is_first(self, training: bool) -> bool:
        return training and not any(each.is_training for each in self._sets)

    def expect_ends(self) -> None:
        """From now on, steps end where `end_step` is called, and nowhere else."""
        self._phases.says_ends = True

    def end_step(self, loss: Any = None, says: str = ENDS) -> None:
        """Ends a step. says: MAY_END if only the last step of a pass ends here."""
        self._loss = loss
        self._said.append(Moment(self._clock.monotonic(), says=says))

    def take(self, is_last: bool = False) -> None:
        with self._taking:
            events = sorted(self._events(), key=lambda each: each[0].at_s)
            for event, phase, length in events:
                self._phases.add(event, phase, length)
            if is_last:
                self._phases.close(self._clock.monotonic())
            else:  # what a script does after its last step is none of the steps'
                self.meter.count_cpu(self._clock.cpu())
            has_asked, self._has_asked = self._has_asked, self._has_asked or self._waiting_s() > 0
            if events or self._has_asked != has_asked:
                self._channel.send(self.meter.totals(), limit_s=0.1)
            self._journal.follow(self.meter)
            self._journal.write(is_last)
            is_due = is_last or self._clock.monotonic() >= self._line_s + LINE_S
            limit_s = 1.0 if is_last else 0.1
            for report in self._deliveries.take(is_due) if self._deliveries else ():
                self._channel.send(report, limit_s)
            if is_due:
                self._line_s = self._clock.monotonic()
                if self.meter.steps:
                    self._channel.send(self._standing(), limit_s)
                if self._job.rank == 0:
                    self._send_line()
                    self._write_summary()

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

    def _events(self) -> Iterator[tuple[Moment, Hashable, int]]:
        """Yields the new events, each with its phase and the number of batches in a pass, negative if unknown."""
        for each in self._sets:
            for note in each.noted.take():
                length = each.noted.lengths.get(note.end, -1)
                each.is_read = note.index >= LOOK and (note.examples is None or note.index + 1 == length)
                wait_s = note.delivered_s - note.asked_s
                begins = note.index == 0 and note.examples is not None
                of = TRAINING if each.is_training else VALIDATION
                event = Moment(note.asked_s, of, wait_s, note.examples, begins)
                phase = (each.phase, note.end) if each.is_training else None
                yield event, phase, length
                if each.is_training and each.phase == self._first_phase:
                    self._taken += note.examples or 0
                if self._first_batch_s is None and each.is_training:
                    self._first_batch_s = wait_s
            deliveries = [note for note in each.noted.take_deliveries() if note.examples is not None]
            if each.is_training:
                self._delivery_ms.extend([1e3 * (note.delivered_s - note.asked_s) for note in deliveries])
        while self._said:
            yield self._said.popleft(), None, -1

    @property
    def _first_phase(self) -> int | None:
        return next((each.phase for each in self._sets if each.is_training), None)

    def _waiting_s(self) -> float:
        """Seconds for which the script has been waiting for a batch for training; 0 if it is not."""
        asked_s = [at_s for each in self._sets if each.is_training for at_s in [*each.noted.pending_s.values()]]
        return max(0.0, self._clock.monotonic() - max(asked_s)) if asked_s else 0.0

    def _send_line(self) -> None:
        """Sends a metric line, which the launcher prints, if there is anything new."""
        phase, waiting_s = self._phases.current, self._waiting_s()
        if phase.meter.has_news(waiting_s):
            line = phase.meter.line(phase.first_step + phase.steps, phase.epoch, _number(self._loss), waiting_s)
            self._channel.send(rank.Metrics(line.exact()), limit_s=0.1)

    def _write_summary(self) -> None:
        if not self._job.record_dir or not self.meter.steps:
            return
        folder = RunFolder(Path(self._job.record_dir)).create()
        there = folder.summary_path.read_bytes() if folder.summary_path.exists() else None
        if there == self._written:  # else the script writes its own
            self._written = folder.write_summary(self._summary()).read_bytes()

    def _standing(self) -> rank.Standing:
        step_ms = 1e3 * median(list(self.meter.measured("dur_s")))
        delivered = self._deliveries.count if self._deliveries else 0
        unused = max(0, delivered - self._taken)
        return rank.Standing(self.meter.steps.added, step_ms, self.meter.wait_pct() or 0.0, delivered, unused)

    def _summary(self) -> RunSummary:
        phase, noted = self._phases.recorded, next((each.noted for each in self._sets if each.is_training), None)
        more: dict[str, Any] = {"part_us": noted.part_us} if isinstance(noted, NotedLoader) else {}
        if isinstance(noted, NotedLoader) and not noted.has_ids:
            more["not_counted"] = NO_LOADER_IDS
        return phase.meter.summary(
            self._job,
            **{"batch_size": phase.batch_size, **more, **self._facts},
            delivery_ms=Spread.of(self._delivery_ms.values) if self._delivery_ms.values else None,
            first_batch_s=self._first_batch_s,
            epochs=phase.epochs,
        )


def _number(loss: Any) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        return value if math.isfinite(value := float(loss)) else None
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
