"""The built-in training: a pipeline, a model, epochs, checkpoints, and the record."""

from __future__ import annotations

import functools
import logging
import math
import signal
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import HostPaths, environment
from tfhet.errors import DataError, UsageError
from tfhet.messages import EpochLine, MetricLine, ProcessChannel, inherited, rank
from tfhet.pipeline import Rest
from tfhet.planes import Reader
from tfhet.record import RunFolder, RunSummary
from tfhet.source import IdSet
from tfhet.steps import Journal, Meter, facts
from tfhet.strategies import Collective, JobContext
from tfhet.trainer.board import OFF, Board
from tfhet.trainer.checkpoint import Checkpoints, Ledger, Progress, export
from tfhet.trainer.loop import Begun, Loop
from tfhet.trainer.parts import Skipped
from tfhet.trainer.settings import Settings
from tfhet.trainer.step import Accelerator, KerasAccelerator

STOP_CODE = 128 + signal.SIGTERM
"""Exit code of a training that stopped on request and has left a checkpoint."""
log = logging.getLogger("tfhet")


def hear_sigterm(stop: threading.Event) -> None:
    """Makes SIGTERM set `stop` instead of ending the process; does nothing outside the main thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, frame: stop.set())


@dataclass
class Training:
    """One rank of a training: everything built, nothing run yet."""

    settings: Settings
    job: JobContext
    paths: HostPaths
    reader: Reader
    validation: Reader | None
    accelerator: Accelerator
    collective: Collective
    clock: Clock = SYSTEM
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when this rank should stop."""
    channel: ProcessChannel = field(default_factory=lambda: inherited(environment()))
    """Channel to the launcher; a training without one sends nothing."""
    was_stopped: bool = False
    """Whether `run` ended because all ranks had agreed to stop."""
    _said_s: float = -math.inf

    def __post_init__(self) -> None:
        self._meter = Meter()
        self._journal = Journal(self.job, self._meter, self.clock)
        self._keras = self.accelerator if isinstance(self.accelerator, KerasAccelerator) else None
        self._is_chief = self.collective.rank == 0
        state = self._keras.state() if self._keras else {}
        folder, keep = self.paths.checkpoints, self.settings.keep_checkpoints
        self._checkpoints = Checkpoints(folder, keep, self.job.job_id, **state)

    def run(self) -> RunSummary:
        """Trains to the end, or until all ranks stop; rank 0 leaves checkpoints, model, TensorBoard logs and record."""
        progress, begun = self._resume()
        if self._is_chief:
            self._announce()
        tensorboard = self.settings.tensorboard if self._is_chief else OFF
        board = Board(tensorboard, self.paths.output / "tensorboard", self.clock)
        loop = self._loop(progress.step, board)
        self._check_validation()
        hear_sigterm(self.stop)
        loop.agree()
        self.channel.send(rank.Reading(endless=False), limit_s=1.0)
        self._say_progress()
        results = self._epochs(loop, board, progress.epoch, begun)
        loop.close()
        self.channel.send(self._meter.totals(), limit_s=0.1)
        self._journal.write(is_last=True)
        self.was_stopped = loop.stopped
        if self._is_chief:
            print(self._meter.parts_line(), flush=True)
        weights = f" weights={self._keras.digest()}" if self._keras else ""
        print(f"[tfhet] rank={self.collective.rank} batches={loop.batches}{weights}", flush=True)
        summary = self._summary(loop, results)
        board.close()
        if self._is_chief:
            self._finish(loop, summary)
        return summary

    def _loop(self, step: int, board: Board) -> Loop:
        settings, keras = self.settings, self._keras

        def on_metrics(line: MetricLine) -> None:
            if not self.channel.send(rank.Metrics(line.exact())):  # the launcher prints it
                print(line, flush=True)
            board.line(line)

        def set_epoch(epoch: float) -> None:
            if keras:
                keras.optimizer.learning_rate.assign(settings.learning_rate_at(epoch, self.collective.size))

        loop = Loop(
            self.reader,
            self.accelerator,
            self.collective,
            accumulate=settings.accumulate,
            audit=settings.audit,
            log_every=settings.log_every,
            set_epoch=set_epoch,
            on_metrics=on_metrics,
            on_epoch_end=keras.average_statistics if keras else lambda: None,
            on_progress=self._say_progress,
            is_told_to_stop=self.stop.is_set,
            skipped=self._skipped(),
            save_every=settings.checkpoint_every_steps,
            clock=self.clock,
            meter=self._meter,
            step=step,
        )
        loop.on_save = functools.partial(self._save, loop)
        return loop

    def _check_validation(self) -> None:
        """Raises UsageError unless all ranks have validation data, or none."""
        (validating,) = self.collective.total([float(self.validation is not None)], "validation")
        if 0 < validating < self.collective.size:
            see = f"{int(validating)} of {self.collective.size} ranks see the channel {self.settings.validation!r}"
            raise UsageError(f"{see}: show it to all dnn hosts, or say --validation none")

    def _epochs(self, loop: Loop, board: Board, first: int, begun: Begun | None) -> list[dict[str, Any]]:
        """Runs the epochs from `first` to the last, or until all ranks stop; returns the results of each."""
        settings, every = self.settings, self.settings.checkpoint_every_epochs
        results = []
        for epoch in range(first, settings.epochs):
            last = epoch + 1 == settings.epochs
            result = loop.epoch(epoch, settings.steps_per_epoch, begun if epoch == first else None, is_last=last)
            is_due = bool(every) and (last or (epoch + 1) % every == 0)
            # With --steps_per_epoch, a pass continues over the end of an epoch.
            at = replace(loop.begun, steps=0) if settings.steps_per_epoch else None
            if loop.stopped:
                self._save(loop, epoch, loop.begun)
            elif is_due:
                self._save(loop, epoch + 1, at)
            if self.validation is not None and self._keras and not loop.stopped:
                result.update(loop.evaluate(self.validation))
                if loop.agree_to_stop() and not is_due:
                    self._save(loop, epoch + 1, at)
            results.append(result)
            if self._is_chief:
                _report_epoch(result, board, loop.step)
            if loop.stopped:
                break
        return results

    def _save(self, loop: Loop, epoch: int, begun: Begun | None = None) -> None:
        """Saves the state of the training in `epoch`, or before it. Raises DataError if a stopped training cannot be
        saved; a failure is only logged while the training continues."""
        if not self._is_chief:
            return
        begun = begun or Begun(number=epoch)
        ledger = Ledger(self.reader.pipeline.source.fingerprint(), begun.rest) if begun.rest else None
        try:
            with self._meter.pause("checkpoint", self.clock):
                self._checkpoints.save(Progress(epoch, loop.step, begun.steps, begun.number), ledger)
        except DataError as error:
            if loop.stopped:
                raise
            log.warning("%s; the training continues without it", error)

    def _finish(self, loop: Loop, summary: RunSummary) -> None:
        """Exports the model of a complete training, and writes the record."""
        if loop.stopped:
            kept = self.paths.checkpoints
            print(f"[tfhet] stopped at step={loop.step} on request; the next run resumes from {kept}", flush=True)
        elif self.settings.export and self._keras:
            export(self._keras.model, self.paths.model)
        folder = Path(self.job.record_dir) if self.job.record_dir else self.paths.output_data / "tfhet"
        try:
            RunFolder(folder).create().write_summary(summary)
        except OSError as error:  # a full disk: the training is complete all the same
            log.warning("the record of the run cannot be written: %s", error)

    def _say_progress(self) -> None:
        """Sends the totals to the launcher, which takes a long silence for a hang; at most once a second."""
        now_s = self.clock.monotonic()
        if now_s > self._said_s + 1.0:
            self._said_s = now_s
            self._meter.count_cpu(self.clock.cpu())
            self.channel.send(self._meter.totals())
            self._journal.write()

    def _announce(self) -> None:
        """Prints what is about to happen: the first step builds the graph, which takes a while."""
        count = self.reader.pipeline.source.example_count()
        size = f", {self._keras.model.count_params() / 1e6:.1f} M parameters" if self._keras else ""
        data = f"{self.settings.epochs} epochs of {'an unknown number of' if count is None else count} examples"
        what = f"{data}, {self.collective.size} ranks of batch {self.settings.batch_size}"
        print(f"[tfhet] training {self.settings.model}{size}: {what}; the first step builds the graph", flush=True)

    def _resume(self) -> tuple[Progress, Begun | None]:
        """Gives all ranks the state of rank 0, from its newest checkpoint if there is one."""
        progress, rest = Progress(), None
        if self._is_chief:
            self._checkpoints.claim()
        if self._is_chief and not self.settings.resume:
            self._checkpoints.set_aside()
        elif self._is_chief:
            progress, ledger = self._checkpoints.restore() or (progress, None)
            if progress.begun and ledger is None and self.settings.audit:
                unknown = "the checkpoint does not state which examples of epoch %d were seen: they may be read again"
                log.warning(unknown, progress.epoch)
            source = self.reader.pipeline.source
            if ledger is not None and ledger.fingerprint == source.fingerprint():
                rest = ledger.rest
            elif ledger is not None:
                log.warning("the data differ from the checkpoint's: epoch %d is read from its start", progress.epoch)
        if self._keras:
            self.collective.broadcast(self._keras.variables())
        stand = [progress.epoch, progress.step, progress.begun, progress.number, rest is not None]
        *stand, is_begun = [int(n) for n in self.collective.total(stand if self._is_chief else [0] * 5, "progress")]
        progress = Progress(*stand)
        rest = rest or (Rest(np.ones(0, bool), IdSet.of()) if is_begun else None)  # rank 0 has the true one
        if progress.step and self._is_chief:
            inside = f", {progress.begun} steps into it" if progress.begun else ""
            inside += f", {rest.splits.sum()} splits of pass {progress.number} to be read" if rest else ""
            print(f"[tfhet] resumed at epoch={progress.epoch} step={progress.step}{inside}", flush=True)
        goes_on = progress.begun or rest or self.settings.steps_per_epoch
        return progress, Begun(progress.begun, progress.number, rest) if goes_on else None

    def _skipped(self) -> Skipped | None:
        """The bad records that the check of the sources found, if they are skipped. Raises DataError for too many."""
        if self.settings.on_bad_record == "fail":
            return None
        readers = [self.reader, *([self.validation] if self.validation else [])]
        damages = [damage for reader in readers for damage in reader.pipeline.source.damages()]
        lost = sum(damage.examples or 1 for damage in damages)
        skipped = Skipped(self.settings.bad_record_budget, records=damages, unreachable=lost)
        skipped.check()
        return skipped

    def _summary(self, loop: Loop, results: list[dict[str, Any]]) -> RunSummary:
        meter, job = loop.meter, self.job
        mine = meter.wait_pct()
        (waited,) = self.collective.total([mine or 0.0], "waiting")
        final = results[-1] if results else {}
        return meter.summary(
            job,
            **facts(self.reader.pipeline, job, cut=self.reader.cut),
            steps=loop.step,
            ranks=self.collective.size,
            wait_pct=None if mine is None else waited / self.collective.size,
            first_batch_s=self.reader.first_batch_s,
            epochs=results,
            bad_records=list(map(asdict, loop.skipped.records)) if loop.skipped else (),
            metrics={k: v for k, v in final.items() if "loss" in k or "accuracy" in k},
        )


def _report_epoch(result: Mapping[str, Any], board: Board, step: int) -> None:
    numbers = {key: value for key, value in result.items() if isinstance(value, (int, float))}
    print(EpochLine(numbers), flush=True)
    if result.get("repeated"):
        log.error("%d examples came more than once, and at most once is promised: please report it", result["repeated"])
    board.add(step, numbers)
