"""The built-in training script: a pipeline, a model, epochs, checkpoints, and the record of it all."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfhet import stages as stage_room
from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import HostPaths, JobContext, environment, host_paths
from tfhet.errors import UsageError
from tfhet.placement import Cut, Pipeline, PlacedStage, bytes_per_example
from tfhet.placement.labels import label_spec
from tfhet.record import RunFolder, RunSummary
from tfhet.service.epoch import sharing_advice, threads_per_rank
from tfhet.service.transport import Transport
from tfhet.source import Sidecar, Source, SyntheticSource, TFRecordSource
from tfhet.stages import CenterCrop, Choice, ImageSpec, RandomResizedCrop, Resize, Stage
from tfhet.trainer import models
from tfhet.trainer.checkpoint import Checkpoints, Progress, export
from tfhet.trainer.collective import Collective, collective
from tfhet.trainer.feed import Feed
from tfhet.trainer.loop import Loop
from tfhet.trainer.schedule import WarmUp
from tfhet.trainer.settings import Settings
from tfhet.trainer.step import NUMBERS, Accelerator, EmulatedAccelerator, KerasAccelerator, shares

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

    def run(self) -> RunSummary:
        """Trains to the end; rank 0 leaves checkpoints, model, TensorBoard logs and the record."""
        settings, chief = self.settings, self.collective.rank == 0
        keras = self.accelerator if isinstance(self.accelerator, KerasAccelerator) else None
        checkpoints = self._checkpoints(keras)
        progress = self._resume(keras, checkpoints)
        if chief:
            self._announce()
        schedule = WarmUp(settings.learning_rate, self.collective.size, settings.warmup_epochs)
        loop = Loop(
            self.feed,
            self.accelerator,
            self.collective,
            accumulate=settings.accumulate,
            audit=settings.audit,
            log_every=settings.log_every,
            set_epoch=(lambda epoch: keras.optimizer.learning_rate.assign(schedule.at(epoch))) if keras else _ignore,
            on_line=lambda line: print(line, flush=True),
            on_epoch_end=keras.average_statistics if keras else lambda: None,
            clock=self.clock,
            step=progress.step,
        )
        writer = tf.summary.create_file_writer(str(self.paths.output / "tensorboard")) if chief else None
        results: list[dict[str, Any]] = []
        for epoch in range(progress.epoch, settings.epochs):
            result = loop.epoch(epoch, settings.steps_per_epoch)
            if self.validation is not None and keras:
                result.update(loop.evaluate(self.validation))
            results.append(result)
            last = epoch + 1 == settings.epochs
            if writer is not None:
                _report_epoch(result, writer, loop.step)
                every = settings.checkpoint_every_epochs
                if checkpoints and every and (last or (epoch + 1) % every == 0):
                    checkpoints.save(Progress(epoch + 1, loop.step))
        weights = f" weights={keras.digest()}" if keras else ""
        print(f"[tfhet] rank={self.collective.rank} batches={loop.batches}{weights}", flush=True)
        summary = self._summary(loop, results)
        if writer is not None:
            writer.close()
            if settings.export and keras:
                export(keras.model, self.paths.model)
            folder = Path(self.job.record_dir) if self.job.record_dir else self.paths.output_data / "tfhet"
            RunFolder(folder).create().write_summary(summary)
        return summary

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

    def _checkpoints(self, keras: KerasAccelerator | None) -> Checkpoints | None:
        if keras is None:
            return None
        return Checkpoints(
            self.paths.checkpoints, self.settings.keep_checkpoints, model=keras.model, optimizer=keras.optimizer
        )

    def _resume(self, keras: KerasAccelerator | None, checkpoints: Checkpoints | None) -> Progress:
        """Rank 0's state, from its newest checkpoint if there is one, becomes everybody's."""
        progress = Progress()
        if checkpoints and self.settings.resume and self.collective.rank == 0:
            progress = checkpoints.restore() or progress
        if keras:
            self.collective.broadcast(keras.variables())
        epoch, step = self.collective.total(
            [progress.epoch, progress.step] if self.collective.rank == 0 else [0, 0], "progress"
        )
        if epoch and self.collective.rank == 0:
            print(f"[tfhet] resumed at epoch={int(epoch)} step={int(step)}", flush=True)
        return Progress(int(epoch), int(step))

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
            wait_pct=None if mine is None else waited / self.collective.size,
            examples_per_s=meter.examples_per_s(),
            bytes_per_example=float(bytes_per_example(self.feed.cut.spec(pipeline))) if job.dispatcher else None,
            first_batch_s=self.feed.first_batch_s,
            epochs=results,
            stages_where=where,
            metrics={k: v for k, v in final.items() if "loss" in k or "accuracy" in k},
        )


def build(settings: Settings, job: JobContext, paths: HostPaths) -> Training:
    """Declares the pipeline, checks what can be checked, forms the collective and builds the model.

    Raises UsageError and DataError before any work is lost.
    """
    seed = job.seed if settings.seed < 0 else settings.seed
    source = _source(settings.data, settings.image_size, paths, seed)
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
    feed = Feed(pipeline, job, cut=cut, transport=transport)
    together = collective(settings.collective, job.size)
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
    return 0


def _source(text: str, image_size: int, paths: HostPaths, seed: int) -> Source:
    kind, *numbers = text.split(":")
    if kind != "synthetic":
        directory = paths.channel(text)
        if not directory.is_dir():
            there = sorted(p.name for p in paths.input_data.glob("*")) if paths.input_data.is_dir() else []
            raise UsageError(
                f"channel {text!r} is missing: {directory} is no directory; "
                f"channels that are there: {', '.join(there) or 'none'}"
            )
        return _records(directory, image_size)
    try:
        examples, splits = int(numbers[0]), int(numbers[1])
        uneven = {"": False, "uneven": True}[numbers[2] if len(numbers) > 2 else ""]
    except (IndexError, ValueError, KeyError):
        raise UsageError(f"--data {text!r}: expected synthetic:EXAMPLES:SPLITS, or with :uneven behind it") from None
    return SyntheticSource(examples, splits, seed=seed, uneven=uneven)


def _records(directory: Path, image_size: int) -> TFRecordSource:
    size = (image_size, image_size) if image_size else None
    return TFRecordSource.from_directory(str(directory), size=size)


def _validation(settings: Settings, pipeline: Pipeline, job: JobContext, paths: HostPaths) -> Feed | None:
    """Validation data are read by the ranks themselves, through the stages without what is random about them."""
    if settings.data.startswith("synthetic") or not paths.channel(settings.validation).is_dir():
        return None
    source = _records(paths.channel(settings.validation), settings.image_size)
    source.check()
    if source.split_count() < job.size:
        raise UsageError(
            f"channel {settings.validation!r} has {source.split_count()} files for {job.size} ranks; write at least "
            "one for each rank"
        )
    given = [pipeline.input, *(placed.output for placed in pipeline.placed())]
    fixed = tuple(s for p, before in zip(pipeline.placed(), given, strict=False) for s in _certain(p, before))
    same_size = replace(pipeline, source=source, stages=fixed, shuffle=0, shuffle_splits=False)
    return Feed(same_size, replace(job, dispatcher=None))


def _certain(placed: PlacedStage, given: ImageSpec) -> tuple[Stage, ...]:
    """The stage without chance: as it is, or left out, or, where it makes another size, the middle or all of the image
    at that size; of a choice, where it makes another size or range, the likeliest."""
    height, width = placed.output.height, placed.output.width
    stage = placed.stage
    if not stage.random:
        return (stage,)
    if isinstance(stage, Choice) and not (stage.keeps_shape and stage.keeps_range):
        _, likeliest = max(zip(stage.shares, stage.branches, strict=True), key=lambda pair: pair[0])
        return _certain(replace(placed, stage=likeliest), given) if likeliest else ()
    if (height, width) == (given.height, given.width):
        return ()
    assert height and width and given.height and given.width
    if isinstance(stage, RandomResizedCrop) or height > given.height or width > given.width:
        return (Resize(height, width),)
    return (CenterCrop(height, width),)


def _accelerator(
    settings: Settings, pipeline: Pipeline, source: Source, paths: HostPaths, together: Collective
) -> Accelerator:
    if settings.model == "emulated":
        return EmulatedAccelerator(settings.step_ms / 1e3, together)
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


def _report_epoch(result: Mapping[str, Any], writer: Any, step: int) -> None:
    numbers = {key: value for key, value in result.items() if isinstance(value, (int, float))}
    shown = " ".join(f"{k}={v:.4f}" if isinstance(v, float) else f"{k}={v}" for k, v in numbers.items())
    print(f"[tfhet] end of {shown}", flush=True)
    with writer.as_default(step=step):
        for key, value in numbers.items():
            tf.summary.scalar(key, value)


def _ignore(epoch: float) -> None:
    return None
