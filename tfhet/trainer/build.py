"""Builds a training from the arguments of the built-in script: source, pipeline, reader, model, collective."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from tfhet import planes, strategies
from tfhet.cluster import HostPaths
from tfhet.errors import UsageError, unknown
from tfhet.messages import FirstBatchLine
from tfhet.pipeline import Cut, Pipeline, label_spec
from tfhet.planes import Reader
from tfhet.source import Sidecar, Source, SyntheticSource, TFRecordSource
from tfhet.stages import CenterCrop, Choice, ImageSpec, PlacedStage, RandomResizedCrop, Resize, ResizedCenterCrop, Stage
from tfhet.strategies import LOCAL_PLANE, Collective, JobContext
from tfhet.trainer.emulated import EmulatedAccelerator
from tfhet.trainer.settings import AUTO, Settings
from tfhet.trainer.step import NUMBERS, Accelerator, KerasAccelerator, shares
from tfhet.trainer.training import Training

SMALL_EDGE = 64
"""Maximum height and width of small images, such as CIFAR's."""
log = logging.getLogger("tfhet")


def build(settings: Settings, job: JobContext, paths: HostPaths) -> Training:
    """Builds a training. Raises UsageError and DataError for everything that can be checked before it runs."""
    seed = job.seed if settings.seed < 0 else settings.seed
    source = _source(settings, paths, seed)
    # Before anything is read: Gloo gives up after 30 s without all ranks, and the disk of one of them may be slow.
    collective = strategies.chosen(job.strategy, job.size).collective(job.size)
    _check(source, job, collective)
    chain = settings.chain
    if chain == AUTO:
        chain, reason = default_chain(Pipeline(source).input)
        if job.rank == 0:
            print(f"[tfhet] the chain is {chain!r}, because {reason}; --chain gives another", flush=True)
    pipeline = Pipeline(source, chain, settings.batch_size, seed=seed, shuffle=settings.shuffle)
    cut = Cut.smallest(pipeline) if settings.cut < 0 else Cut(settings.cut).checked(pipeline)
    if pipeline.output.height is None or pipeline.output.width is None:
        cure = "say --image_size N, or begin the chain with decode() and a stage like random_resized_crop(224, 224)"
        raise UsageError(f"the model needs images of one size, and the chain {chain!r} gives {pipeline.output}; {cure}")
    if source.split_count() < 1:
        raise UsageError(f"source {source.name!r} has no splits: there is nothing to read")
    side = planes.get(job.plane).rank_side()
    if job.rank == 0:
        print(pipeline.explain(), flush=True)
        if advice := side.advice(pipeline, job):
            log.warning(advice)

    def on_first_batch(after_s: float) -> None:
        if job.rank == 0:
            print(FirstBatchLine(after_s), flush=True)

    reader = side.reader(pipeline, job, cut=cut, compression=settings.compression, on_first_batch=on_first_batch)
    tf.keras.utils.set_random_seed(seed)
    accelerator = _accelerator(settings, pipeline, source, paths, collective)
    return Training(settings, job, paths, reader, _validation(settings, pipeline, job, paths), accelerator, collective)


def default_chain(images: ImageSpec) -> tuple[str, str]:
    """Returns a chain for images of this kind, and the reason for it."""
    if images.dtype == "encoded":
        return "imagenet-train", "the data are image files"
    height, width = images.height, images.width
    if max(height or 0, width or 0) <= SMALL_EDGE:
        return "aws-cifar", f"the images are small, {height}x{width}"
    return f"random_resized_crop({height}, {width}); random_flip(); rescale()", f"the images are {height}x{width}"


def _source(settings: Settings, paths: HostPaths, seed: int) -> Source:
    text = settings.data
    if (directory := settings.channel(paths)) is not None:
        return _records(directory, settings)
    numbers = text.split(":")[1:]
    try:
        examples, splits = int(numbers[0]), int(numbers[1])
        uneven = {"": False, "uneven": True}[numbers[2] if len(numbers) > 2 else ""]
    except (IndexError, ValueError, KeyError):
        raise UsageError(f"--data {text!r}: expected synthetic:EXAMPLES:SPLITS, with or without :uneven") from None
    return SyntheticSource(examples, splits, seed=seed, uneven=uneven)


def _records(directory: Path, settings: Settings, classes: Sequence[str] = ()) -> TFRecordSource:
    size = (settings.image_size, settings.image_size) if settings.image_size else None
    return TFRecordSource.from_directory(
        str(directory), size=size, on_bad_record=settings.on_bad_record, classes=classes
    )


def _check(source: Source, job: JobContext, collective: Collective) -> None:
    """Checks the source: the ranks of a host share its files, and all ranks take the counts from rank 0's host.
    Bad records that are to be skipped are found by every rank, since each has to know them."""
    if not isinstance(source, TFRecordSource) or source.on_bad_record == "skip":
        source.check()
        return
    share, is_on_first_host = (job.local_rank, job.local_size), job.rank < job.local_size
    source.check(share, lambda counts: collective.gather(counts if is_on_first_host else counts[:0], "files"))


def _validation(settings: Settings, pipeline: Pipeline, job: JobContext, paths: HostPaths) -> Reader | None:
    """The reader of the validation data: the ranks prepare them themselves, by the stages without their chance. Labels
    are numbered by the classes of the training data, where both channels name theirs. Raises UsageError for a class
    that those do not have, and for fewer files than ranks."""
    if settings.data.startswith("synthetic") or not paths.channel(settings.validation).is_dir():
        return None
    source = _records(paths.channel(settings.validation), settings, Sidecar.classes_of(paths.channel(settings.data)))
    source.check()
    if source.split_count() < job.size:
        few = f"channel {settings.validation!r} has {source.split_count()} files for {job.size} ranks"
        raise UsageError(f"{few}; write at least one for each rank")
    given = [pipeline.input, *(placed.output for placed in pipeline.placed())]
    fixed = tuple(s for p, before in zip(pipeline.placed(), given, strict=False) for s in certain(p, before))
    same_size = replace(pipeline, source=source, stages=fixed, shuffle=0, shuffle_splits=False)
    return planes.get(LOCAL_PLANE).rank_side().reader(same_size, replace(job, plane=LOCAL_PLANE, order={}))


def certain(placed: PlacedStage, given: ImageSpec) -> tuple[Stage, ...]:
    """Returns a stage without randomness for validation. A random stage is omitted unless it changes the size: then the
    middle or all of the image is brought to that size; of images of many sizes the middle, as `imagenet-eval` does. Of
    a choice that changes size or range, the likeliest branch is taken."""
    height, width = placed.output.height, placed.output.width
    stage = placed.stage
    if not stage.random:
        return (stage,)
    if isinstance(stage, Choice) and not (stage.keeps_shape and stage.keeps_range):
        _, likeliest = max(zip(stage.shares, stage.branches, strict=True), key=lambda pair: pair[0])
        return certain(replace(placed, stage=likeliest), given) if likeliest else ()
    if (height, width) == (given.height, given.width) or height is None or width is None:
        return ()
    if given.height is None or given.width is None:
        shorter = round(max(height, width) * 256 / 224)  # in the proportion of `imagenet-eval`
        return (ResizedCenterCrop(height, width, shorter, getattr(stage, "antialias", False)),)
    if isinstance(stage, RandomResizedCrop) or height > given.height or width > given.width:
        return (Resize(height, width),)
    return (CenterCrop(height, width),)


def _accelerator(
    settings: Settings, pipeline: Pipeline, source: Source, paths: HostPaths, collective: Collective
) -> Accelerator:
    if settings.model == "emulated":
        file = Path(settings.step_file) if settings.step_file else None
        return EmulatedAccelerator(settings.step_ms / 1e3, collective, file=file)
    if settings.precision != "float32":
        tf.keras.mixed_precision.set_global_policy(f"mixed_{settings.precision}")
    output = pipeline.output
    assert output.height and output.width
    classes = _classes(source, paths, settings.data)
    return KerasAccelerator(
        model(settings.model, (output.height, output.width, output.channels), classes),
        tf.keras.optimizers.Adam(settings.learning_rate),
        collective,
        labels=_labels(pipeline, classes),
        loss_scaling=settings.precision == "float16",
        accumulate=settings.accumulate > 1,
    )


def model(name: str, shape: tuple[int, int, int], classes: int) -> tf.keras.Model:
    """The named model for images in [0, 1] of `shape` (height, width, channels); its output is probabilities, float32.
    `resnet50` is Keras' ResNet-50 (He et al. 2015) without pre-trained weights, for height and width of at least 32,
    with batch normalization of momentum 0.9 (Goyal et al. 2017): with Keras' 0.99 the averages that validation uses
    need hundreds of steps. `small_cnn` has about 160,000 parameters at 32x32x3 and trains quickly on a CPU."""
    if name == "resnet50":
        made = tf.keras.applications.ResNet50(weights=None, input_shape=shape, classes=classes)
        for layer in made.layers:
            if isinstance(layer, tf.keras.layers.BatchNormalization):
                layer.momentum = 0.9
        return made
    if name != "small_cnn":
        unknown("model", name, ("resnet50", "small_cnn", "emulated"))
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input(shape),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(classes, activation="softmax", dtype="float32"),
        ],
        name="small_cnn",
    )


def _labels(pipeline: Pipeline, classes: int) -> tf.TensorSpec:
    """Returns the spec of the labels. Raises UsageError unless they are class numbers or shares of these classes."""
    spec = label_spec(pipeline.source.spec, pipeline.placed())
    if spec is None or "float" not in spec.dtype:
        return NUMBERS
    if not spec.tensor.is_compatible_with(shares(classes)):
        raise UsageError(f"the chain makes labels of {spec}, and there are {classes} classes")
    return shares(classes)


def _classes(source: Source, paths: HostPaths, channel: str) -> int:
    """Number of classes of a synthetic source, or in the channel's sidecar. Raises UsageError where neither says it."""
    if isinstance(source, SyntheticSource):
        return source.classes
    if not (names := Sidecar.classes_of(paths.channel(channel))):
        raise UsageError(f"channel {channel!r} does not name its classes: its {Sidecar.NAME} has no list `classes`")
    return len(names)
