"""The built-in trainer's arguments, in the forms that SageMaker gives them: all text, unknown ones ignored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tfhet import arguments
from tfhet.cluster import HostPaths
from tfhet.errors import UsageError
from tfhet.schema import least, one_of

AUTO = "auto"
"""The argument for a chain that follows from the images: see `build.default_chain`."""

PACKAGES = ("tensorflow",)
"""Modules that the trainer needs."""


@dataclass(frozen=True)
class Settings:
    """Model, data, length and manner of a training. Every field is an argument `--NAME VALUE`."""

    model: str = "resnet50"
    """Model to train: `resnet50`, `small_cnn` (two convolutions) or `emulated` (takes `step_ms` and no CPU)."""
    step_ms: Annotated[float, least(0.0)] = 50.0
    """Length of an emulated step, in milliseconds."""
    step_file: str = ""
    """File that holds the length of an emulated step instead. The trainer reads it before each step, so it may change
    during a run; until it exists, `step_ms` holds."""
    data: str = "training"
    """Channel to train on, or `synthetic:EXAMPLES:SPLITS` (with `:uneven` behind it, splits differ in size)."""
    validation: str = "validation"
    """Channel to validate on after every epoch. Without such a channel there is no validation."""
    image_size: Annotated[int, least(0)] = 0
    """Height and width to which encoded images are resized. 0: images keep their size, or get one by the chain."""
    chain: str = AUTO
    """Stages of the pipeline: the name of a chain, or stages in call syntax. `auto`: `imagenet-train` for image files,
    `aws-cifar` for small images, and for larger ones of one size a random crop and a flip."""
    cut: int = -1
    """Number of stages that the data group runs; the trainer runs the rest. -1: cut where an example is smallest."""
    batch_size: Annotated[int, least(1)] = 64
    """Examples per rank and step."""
    epochs: Annotated[int, least(1)] = 3
    """Number of epochs to train."""
    steps_per_epoch: Annotated[int, least(0)] = 0
    """Steps in an epoch, taken from an endless stream of passes. 0: an epoch is one pass over the data."""
    shuffle: Annotated[int, least(0)] = 1000
    """Size of the shuffle buffer, in examples."""
    learning_rate: float = 0.001
    """Learning rate of one rank (Adam). The trainer multiplies it by the number of ranks."""
    warmup_epochs: float = 3.0
    """Epochs over which the learning rate grows linearly from the rate of one rank to the rate of all ranks."""
    precision: Annotated[str, one_of(("float32", "float16", "bfloat16"))] = "float32"
    """Numbers that the model computes with: `float32`, `float16` (with dynamic loss scaling) or `bfloat16`."""
    accumulate: Annotated[int, least(1)] = 1
    """Number of batches whose gradients make one step."""
    compression: Annotated[str, one_of(("none", "snappy"))] = "none"
    """Compression of batches between workers and ranks: `none` or `snappy`."""
    log_every: Annotated[int, least(1)] = 10
    """Number of steps between two metric lines."""
    tensorboard: str = ""
    """Folder in which rank 0 writes for TensorBoard, or `off`. Empty: `output/tensorboard`."""
    checkpoint_every_epochs: Annotated[int, least(0)] = 1
    """Epochs between two checkpoints. 0: the trainer writes none at the end of an epoch, only when it is stopped."""
    checkpoint_every_steps: Annotated[int, least(0)] = 0
    """Steps between two checkpoints within an epoch. 0: none within an epoch."""
    keep_checkpoints: Annotated[int, least(1)] = 3
    """Number of newest checkpoints that are kept."""
    resume: bool = True
    """Whether training continues from the newest checkpoint."""
    audit: bool = True
    """Whether the trainer counts by id what each epoch delivered; only then are lost examples read again."""
    on_bad_record: Annotated[str, one_of(("fail", "skip"))] = "fail"
    """Response to a record or image that cannot be read: `fail` ends the training and names it, `skip` counts it."""
    bad_record_budget: Annotated[int, least(0)] = 100
    """Maximum number of lost examples. More of them end the training even with `skip`."""
    export: bool = True
    """Whether rank 0 writes the SavedModel at the end."""
    threads: int = 0
    """Number of CPU threads that TensorFlow uses in a rank. 0: the rank's share of the host's cores."""
    seed: int = -1
    """Seed of data and weights. -1: the job's seed (`--job_seed` of the launcher)."""

    def __post_init__(self) -> None:
        if self.on_bad_record == "skip" and not self.audit:
            raise UsageError("--on_bad_record skip counts what it skips by the audit: leave --audit on")

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Settings:
        """The settings of a command line; `-` and `_` in names are the same. Raises UsageError for a wrong value."""
        return arguments.parse(cls, arguments.underscored(argv), "tfhet.trainer")[0]

    def channel(self, paths: HostPaths) -> Path | None:
        """The directory of the training data; None for synthetic data. Raises UsageError if it cannot be read or has no
        TFRecord file."""
        if self.data.partition(":")[0] == "synthetic":
            return None
        directory = paths.channel(self.data)
        try:
            names = os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            found = ", ".join(sorted(path.name for path in paths.input_data.glob("*"))) or "none"
            raise UsageError(
                f"channel {self.data!r} is missing: {directory} is no directory; channels that exist: {found}"
            ) from None
        except OSError as error:
            raise UsageError(f"channel {self.data!r} cannot be read: {directory}: {error.strerror}") from None
        if not any(".tfrecord" in name and not name.startswith(".") for name in names):
            few = f"none of the {len(names)} entries of {directory} is called *.tfrecord*"
            raise UsageError(f"channel {self.data!r} has no TFRecord files: {few}; `tfhet convert` writes them")
        return directory

    def learning_rate_at(self, epoch: float, ranks: int) -> float:
        """The learning rate after `epoch` epochs: linear scaling, gradual warm-up (Goyal et al. 2017, section 2.2)."""
        if epoch >= self.warmup_epochs:
            return self.learning_rate * ranks
        return self.learning_rate * (1 + (ranks - 1) * epoch / self.warmup_epochs)
