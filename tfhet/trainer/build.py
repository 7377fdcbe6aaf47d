"""Builds a training from the arguments of the built-in script: source, pipeline, reader, model, collective."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from tfhet import planes, strategies
from tfhet.cluster import HostPaths
from tfhet.errors import UsageError
from tfhet.messages import FirstBatchLine
from tfhet.placement import Cut, Pipeline
from tfhet.placement.labels import label_spec
from tfhet.planes import Reader
from tfhet.source import Sidecar, Source, SyntheticSource, TFRecordSource
from tfhet.strategies import LOCAL_PLANE, Collective, JobContext
from tfhet.trainer import models
from tfhet.trainer.settings import Settings
from tfhet.trainer.step import NUMBERS, Accelerator, EmulatedAccelerator, KerasAccelerator, shares
from tfhet.trainer.training import Training
from tfhet.trainer.validation import stages_without_chance

log = logging.getLogger("tfhet")


def build(settings: Settings, job: JobContext, paths: HostPaths) -> Training:
    """Forms the collective, declares the pipeline, checks what can be checked and builds the model.

    Raises UsageError and DataError before any work is lost.
    """
    seed = job.seed if settings.seed < 0 else settings.seed
    source = _source(settings, paths, seed)
    # Before anything is read: Gloo gives up after 30 s without all ranks, and the disk of one of them may be slow.
    name = job.strategy if settings.collective == strategies.AUTO else settings.collective
    together = strategies.chosen(name, job.size).collective(job.size)
    source.check()
    pipeline = Pipeline(source, settings.chain, settings.batch_size, seed=seed, shuffle=settings.shuffle)
    cut = Cut.smallest(pipeline) if settings.cut < 0 else Cut(settings.cut).checked(pipeline)
    if pipeline.output.height is None or pipeline.output.width is None:
        raise UsageError(
            f"the model needs images of one size, and the chain {settings.chain!r} gives {pipeline.output}; "
            "say --image_size N"
        )
    if source.split_count() < 1:
        raise UsageError(f"source {source.name!r} has no splits: there is nothing to read")
    side = planes.get(job.plane).rank_side()
    if job.rank == 0:
        print(pipeline.explain(), flush=True)
        if advice := side.advice(pipeline, job):
            log.warning(advice)
    on_first_batch = _say_first_batch if job.rank == 0 else _ignore
    reader = side.reader(pipeline, job, cut=cut, compression=settings.compression, on_first_batch=on_first_batch)
    tf.keras.utils.set_random_seed(seed)
    accelerator = _accelerator(settings, pipeline, source, paths, together)
    return Training(settings, job, paths, reader, _validation(settings, pipeline, job, paths), accelerator, together)


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


def _validation(settings: Settings, pipeline: Pipeline, job: JobContext, paths: HostPaths) -> Reader | None:
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
    return planes.get(LOCAL_PLANE).rank_side().reader(same_size, replace(job, plane=LOCAL_PLANE, order={}))


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


def _say_first_batch(after_s: float) -> None:
    print(FirstBatchLine(after_s), flush=True)


def _ignore(number: float) -> None:
    return None
