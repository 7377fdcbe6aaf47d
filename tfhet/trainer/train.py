"""The built-in training script: a pipeline, a model, epochs, checkpoints, and the record of it all."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet import stages as stage_room
from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import HostPaths, JobContext, Serving, environment, host_paths
from tfhet.errors import UsageError
from tfhet.messages import EpochLine, FirstBatchLine
from tfhet.placement import Cut, Pipeline, bytes_per_example
from tfhet.placement.labels import label_spec
from tfhet.record import RunFolder, RunSummary
from tfhet.service.epoch import sharing_advice, threads_per_rank
from tfhet.service.notice import notify
from tfhet.service.transport import Transport
from tfhet.source import Sidecar, Source, SyntheticSource, TFRecordSource
from tfhet.trainer import models
from tfhet.trainer.board import OFF, Board
from tfhet.trainer.checkpoint import Checkpoints, Progress, export
from tfhet.trainer.collective import Collective, collective
from tfhet.trainer.feed import Feed
from tfhet.trainer.journal import Journal
from tfhet.trainer.ledger import Ledger
from tfhet.trainer.loop import Begun, Loop
from tfhet.trainer.meter import Meter
from tfhet.trainer.parts import Skipped
from tfhet.trainer.schedule import WarmUp
from tfhet.trainer.settings import Settings
from tfhet.trainer.step import NUMBERS, Accelerator, EmulatedAccelerator, KerasAccelerator, shares
from tfhet.trainer.stop import STOP_CODE, StopRequest
from tfhet.trainer.validation import stages_without_chance

log = logging.getLogger("tfhet")


@dataclass
class Training:
    """One rank of a training: everything built, nothing run yet."""

    settings: Settings
    job: JobContext
    paths: HostPaths
    feed: Feed
    validation: Feed | None
    accelerator: Accelerator
    collective: Collective
    clock: Clock = SYSTEM
    stop: StopRequest = field(default_factory=StopRequest)
    was_stopped: bool = False
    """Whether `run` ended because all ranks had agreed to stop."""
    _told_s: float = -math.inf
    _meter: Meter = field(default_factory=Meter)
    _journal: Journal = field(default_factory=Journal)

    def run(self) -> RunSummary:
        """Trains to the end, or until it is told to stop; rank 0 leaves checkpoints, model, TensorBoard logs and the
        record."""
        settings, chief = self.settings, self.collective.rank == 0
        keras = self.accelerator if isinstance(self.accelerator, KerasAccelerator) else None
        checkpoints = self._checkpoints(keras)
        progress, begun = self._resume(keras, checkpoints)
        if chief:
            self._announce()
        schedule = WarmUp(settings.learning_rate, self.collective.size, settings.warmup_epochs)

        def save(epoch: int, begun: Begun | None = None) -> None:
            """Where the training stands in `epoch`, or before it."""
            if chief:
                begun = begun or Begun(number=epoch)
                with self._meter.pause("checkpoint", self.clock):
                    checkpoints.save(Progress(epoch, loop.step, begun.steps, begun.number), self._ledger(begun))

        board = Board.of(settings.tensorboard if chief else OFF, self.paths.output / "tensorboard", self.clock)
        loop = Loop(
            self.feed,
            self.accelerator,
            self.collective,
            accumulate=settings.accumulate,
            audit=settings.audit,
            log_every=settings.log_every,
            set_epoch=(lambda epoch: keras.optimizer.learning_rate.assign(schedule.at(epoch))) if keras else _ignore,
            on_line=lambda line: print(line, flush=True),
            on_metrics=board.line,
            on_epoch_end=keras.average_statistics if keras else lambda: None,
            on_progress=self._say_progress,
            is_told_to_stop=lambda: self.stop.is_made,
            serving=lambda: Serving.read(self._record_dir),
            skipped=self._skipped(),
            save_every=settings.checkpoint_every_steps,
            on_save=save,
            clock=self.clock,
            meter=self._meter,
            step=progress.step,
        )
        self._journal = Journal.of(self.job, self._meter, self.clock)
        results: list[dict[str, Any]] = []
        (validating,) = self.collective.total([float(self.validation is not None)], "validation")
        if 0 < validating < self.collective.size:
            raise UsageError(
                f"{int(validating)} of {self.collective.size} ranks see the channel {settings.validation!r}: show it "
                "to all dnn hosts, or say --validation none"
            )
        self.stop.listen()
        loop.agree()
        if self._record_dir:
            notify("reads", endlessly=False)
        self._say_progress()
        for epoch in range(progress.epoch, settings.epochs):
            result = loop.epoch(epoch, settings.steps_per_epoch, begun)
            begun, last, every = None, epoch + 1 == settings.epochs, settings.checkpoint_every_epochs
            is_due = bool(every) and (last or (epoch + 1) % every == 0)
            # A pass goes on over the ends of epochs that are so many steps.
            at = replace(loop.begun, steps=0) if settings.steps_per_epoch else None
            if loop.stopped:
                save(epoch, loop.begun)
            elif is_due:
                save(epoch + 1, at)
            if self.validation is not None and keras and not loop.stopped:
                result.update(loop.evaluate(self.validation))
                if loop.agree_to_stop() and not is_due:
                    save(epoch + 1, at)
            results.append(result)
            if chief:
                _report_epoch(result, board, loop.step)
            if loop.stopped:
                break
        loop.close()
        self._journal.write()
        self.was_stopped = loop.stopped
        if chief:
            print(self._meter.parts_line(), flush=True)
        weights = f" weights={keras.digest()}" if keras else ""
        print(f"[tfhet] rank={self.collective.rank} batches={loop.batches}{weights}", flush=True)
        summary = self._summary(loop, results)
        board.close()
        if chief:
            if loop.stopped:
                kept = self.paths.checkpoints
                print(f"[tfhet] stopped at step={loop.step}, as told; the next run goes on from {kept}", flush=True)
            elif settings.export and keras:
                export(keras.model, self.paths.model)
            RunFolder(self._record_dir or self.paths.output_data / "tfhet").create().write_summary(summary)
        return summary

    def _say_progress(self) -> None:
        """Tells the launcher, which takes a long silence for a hang; once a second is enough."""
        now_s = self.clock.monotonic()
        if self._record_dir and now_s > self._told_s + 1.0:
            self._told_s = now_s
            notify("goes on", **self._meter.totals())
            self._journal.write()

    @property
    def _record_dir(self) -> Path | None:
        return Path(self.job.record_dir) if self.job.record_dir else None

    def _announce(self) -> None:
        """Says what is about to happen: the first step builds the graph, which takes a while."""
        count = self.feed.pipeline.source.example_count()
        keras = self.accelerator if isinstance(self.accelerator, KerasAccelerator) else None
        size = f", {keras.model.count_params() / 1e6:.1f} M parameters" if keras else ""
        print(
            f"[tfhet] training {self.settings.model}{size}: {self.settings.epochs} epochs of "
            f"{'an unknown number of' if count is None else count} examples, {self.collective.size} ranks of batch "
            f"{self.settings.batch_size}; the first step builds the graph",
            flush=True,
        )

    def _checkpoints(self, keras: KerasAccelerator | None) -> Checkpoints:
        state = keras.state() if keras else {}
        return Checkpoints(self.paths.checkpoints, self.settings.keep_checkpoints, **state)

    def _ledger(self, begun: Begun) -> Ledger | None:
        source = self.feed.pipeline.source
        return None if begun.seen is None else Ledger.of(source.fingerprint(), begun.seen, source.split_sizes())

    def _resume(self, keras: KerasAccelerator | None, checkpoints: Checkpoints) -> tuple[Progress, Begun | None]:
        """Rank 0's state, from its newest checkpoint if there is one, becomes everybody's."""
        progress, seen = Progress(), np.zeros(0, np.int64)
        if self.collective.rank == 0 and not self.settings.resume:
            checkpoints.set_aside()
        elif self.collective.rank == 0:
            progress, ledger = checkpoints.restore() or (progress, None)
            source = self.feed.pipeline.source
            if ledger is not None and ledger.fingerprint == source.fingerprint():
                seen = ledger.seen(source.split_sizes())
            elif ledger is not None:
                log.warning("the data are not those of the checkpoint: epoch %d is read from its start", progress.epoch)
        if keras:
            self.collective.broadcast(keras.variables())
        stand = [progress.epoch, progress.step, progress.begun, progress.number]
        stand = [int(n) for n in self.collective.total(stand if self.collective.rank == 0 else [0] * 4, "progress")]
        progress, seen = Progress(*stand), self.collective.gather(seen, "ledger")
        if progress.step and self.collective.rank == 0:
            inside = f", {progress.begun} steps into it" if progress.begun else ""
            inside += f", {len(seen)} examples of pass {progress.number} seen" if seen.size else ""
            print(f"[tfhet] resumed at epoch={progress.epoch} step={progress.step}{inside}", flush=True)
        goes_on = progress.begun or seen.size or self.settings.steps_per_epoch
        return progress, Begun(progress.begun, progress.number, seen if seen.size else None) if goes_on else None

    def _skipped(self) -> Skipped | None:
        """Raises DataError when the check of the source has passed over too much."""
        if self.settings.on_bad_record == "fail":
            return None
        feeds = [self.feed, *([self.validation] if self.validation else [])]
        damages = [damage for feed in feeds for damage in feed.pipeline.source.damages()]
        lost = sum(damage.examples or 1 for damage in damages)
        skipped = Skipped(self.settings.bad_record_budget, records=damages, unreachable=lost)
        skipped.check()
        return skipped

    def _summary(self, loop: Loop, results: list[dict[str, Any]]) -> RunSummary:
        pipeline, meter, job = self.feed.pipeline, loop.meter, self.job
        remote = "trainer" if not job.dispatcher else "data_group" if job.data_hosts else "dnn_group"
        where: dict[str, str] = {}
        for index, placed in enumerate(pipeline.placed()):
            text = stage_room.text((placed.stage,))
            name = f"{text} at {placed.declared}" if text in where else text
            where[name] = remote if index < self.feed.cut.position else "trainer"
        mine = meter.wait_pct()
        (waited,) = self.collective.total([mine or 0.0], "waiting")
        final = results[-1] if results else {}
        return RunSummary(
            job_id=job.job_id,
            mode=job.mode,
            steps=loop.step,
            batch_size=pipeline.batch_size,
            ranks=self.collective.size,
            step_ms=meter.step_ms(),
            wait_ms=meter.wait_ms(),
            step_parts_ms=meter.parts_ms(),
            checkpoint_s=meter.paused_s("checkpoint"),
            wait_pct=None if mine is None else waited / self.collective.size,
            examples_per_s=meter.examples_per_s(),
            bytes_per_example=float(bytes_per_example(self.feed.cut.spec(pipeline))) if job.dispatcher else None,
            first_batch_s=self.feed.first_batch_s,
            epochs=results,
            stages_where=where,
            bad_records=[record.to_json() for record in loop.skipped.records] if loop.skipped else (),
            metrics={k: v for k, v in final.items() if "loss" in k or "accuracy" in k},
        )


def build(settings: Settings, job: JobContext, paths: HostPaths) -> Training:
    """Forms the collective, declares the pipeline, checks what can be checked and builds the model.

    Raises UsageError and DataError before any work is lost.
    """
    seed = job.seed if settings.seed < 0 else settings.seed
    source = _source(settings, paths, seed)
    # Before anything is read: Gloo gives up after 30 s without all ranks, and the disk of one of them may be slow.
    together = collective(settings.collective, job.size)
    source.check()
    pipeline = Pipeline(source, settings.chain, settings.batch_size, seed=seed, shuffle=settings.shuffle)
    cut = Cut.smallest(pipeline) if settings.cut < 0 else Cut(settings.cut).checked(pipeline)
    if pipeline.output.height is None or pipeline.output.width is None:
        raise UsageError(
            f"the model needs images of one size, and the chain {settings.chain!r} gives {pipeline.output}; "
            "say --image_size N"
        )
    advice = sharing_advice(pipeline, job.workers)
    if job.rank == 0:
        print(pipeline.explain(), flush=True)
        if advice:
            log.warning(advice)
    transport = Transport(compression="AUTO" if settings.compression == "snappy" else None)
    feed = Feed(
        pipeline, job, cut=cut, transport=transport, on_first_batch=_say_first_batch if job.rank == 0 else _ignore
    )
    tf.keras.utils.set_random_seed(seed)
    accelerator = _accelerator(settings, pipeline, source, paths, together)
    return Training(settings, job, paths, feed, _validation(settings, pipeline, job, paths), accelerator, together)


def main(argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Runs the script; the exit code."""
    env = environment() if env is None else env
    logging.basicConfig(format="[tfhet] %(levelname)s: %(message)s")
    settings, job, paths = Settings.parse(argv), JobContext.from_env(env), host_paths(env)
    with contextlib.suppress(RuntimeError):  # TensorFlow runs in this process already, with the threads that it has
        tf.config.threading.set_intra_op_parallelism_threads(settings.threads or threads_per_rank(job))
    training = build(settings, job, paths)
    try:
        training.run()
    finally:
        training.collective.shutdown()
    return STOP_CODE if training.was_stopped else 0


def _source(settings: Settings, paths: HostPaths, seed: int) -> Source:
    text = settings.data
    kind, *numbers = text.split(":")
    if kind != "synthetic":
        directory = paths.channel(text)
        if not directory.is_dir():
            there = sorted(p.name for p in paths.input_data.glob("*")) if paths.input_data.is_dir() else []
            raise UsageError(
                f"channel {text!r} is missing: {directory} is no directory; "
                f"channels that are there: {', '.join(there) or 'none'}"
            )
        return _records(directory, settings)
    try:
        examples, splits = int(numbers[0]), int(numbers[1])
        uneven = {"": False, "uneven": True}[numbers[2] if len(numbers) > 2 else ""]
    except (IndexError, ValueError, KeyError):
        raise UsageError(f"--data {text!r}: expected synthetic:EXAMPLES:SPLITS, or with :uneven behind it") from None
    return SyntheticSource(examples, splits, seed=seed, uneven=uneven)


def _records(directory: Path, settings: Settings) -> TFRecordSource:
    size = (settings.image_size, settings.image_size) if settings.image_size else None
    return TFRecordSource.from_directory(str(directory), size=size, on_bad_record=settings.on_bad_record)


def _validation(settings: Settings, pipeline: Pipeline, job: JobContext, paths: HostPaths) -> Feed | None:
    """Validation data are read by the ranks themselves, through the stages without what is random about them."""
    if settings.data.startswith("synthetic") or not paths.channel(settings.validation).is_dir():
        return None
    source = _records(paths.channel(settings.validation), settings)
    source.check()
    if source.split_count() < job.size:
        raise UsageError(
            f"channel {settings.validation!r} has {source.split_count()} files for {job.size} ranks; write at least "
            "one for each rank"
        )
    fixed = stages_without_chance(pipeline)
    same_size = replace(pipeline, source=source, stages=fixed, shuffle=0, shuffle_splits=False)
    return Feed(same_size, replace(job, dispatcher=None))


def _accelerator(
    settings: Settings, pipeline: Pipeline, source: Source, paths: HostPaths, together: Collective
) -> Accelerator:
    if settings.model == "emulated":
        file = Path(settings.step_file) if settings.step_file else None
        return EmulatedAccelerator(settings.step_ms / 1e3, together, file=file)
    if settings.precision != "float32":
        tf.keras.mixed_precision.set_global_policy(f"mixed_{settings.precision}")
    output = pipeline.output
    assert output.height and output.width
    classes = _classes(source, paths, settings.data)
    model = models.model(settings.model, (output.height, output.width, output.channels), classes)
    optimizer = tf.keras.optimizers.Adam(settings.learning_rate)
    scaling = settings.precision == "float16"
    labels = _labels(pipeline, classes)
    accumulate = settings.accumulate > 1
    return KerasAccelerator(model, optimizer, together, labels=labels, loss_scaling=scaling, accumulate=accumulate)


def _labels(pipeline: Pipeline, classes: int) -> tf.TensorSpec:
    """What the training gets as labels. Raises UsageError unless the chain leaves them as they are or makes them shares
    of just the classes that there are."""
    spec = label_spec(pipeline.source.spec, pipeline.placed())
    if spec is None or not spec.dtype.is_floating:
        return NUMBERS
    if not spec.is_compatible_with(shares(classes)):
        raise UsageError(f"the chain makes labels of {spec.dtype.name} {spec.shape}, and there are {classes} classes")
    return shares(classes)


def _classes(source: Source, paths: HostPaths, channel: str) -> int:
    """Of a synthetic source, or as the channel's sidecar names them. Raises UsageError where nobody says."""
    if isinstance(source, SyntheticSource):
        return source.classes
    sidecar = Sidecar.read(paths.channel(channel))
    if sidecar is None or not sidecar.classes:
        raise UsageError(f"channel {channel!r} does not name its classes: its {Sidecar.NAME} has no list `classes`")
    return len(sidecar.classes)


def _report_epoch(result: Mapping[str, Any], board: Board, step: int) -> None:
    numbers = {key: value for key, value in result.items() if isinstance(value, (int, float))}
    print(EpochLine(numbers), flush=True)
    if result.get("repeated"):
        log.error("%d examples came more than once, and at most once is promised: please report it", result["repeated"])
    board.epoch(step, numbers)


def _say_first_batch(after_s: float) -> None:
    print(FirstBatchLine(after_s), flush=True)


def _ignore(number: float) -> None:
    return None
