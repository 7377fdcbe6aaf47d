"""The built-in trainer's arguments, in the forms that SageMaker gives them: all text, unknown ones ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfhet import arguments, strategies
from tfhet.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """What to train, on what, and for how long. Every field is an argument `--NAME VALUE`."""

    model: str = "resnet50"
    """resnet50, small_cnn, or emulated (a step that takes `step_ms` and no CPU)."""
    step_ms: float = 50.0
    """Length of an emulated step."""
    step_file: str = ""
    """File that holds it instead, read before each step: it may change meanwhile. While it is not there, `step_ms`."""
    data: str = "training"
    """Channel to train on, or `synthetic:EXAMPLES:SPLITS` (`synthetic:EXAMPLES:SPLITS:uneven`)."""
    validation: str = "validation"
    """Channel to validate on; left out where it does not exist."""
    image_size: int = 0
    """Height and width to which encoded images are brought; 0: they are raw and have a size."""
    chain: str = "aws-cifar"
    """Stages: the name of a chain, or call syntax."""
    cut: int = -1
    """Position where the data group stops; -1: where an example is smallest."""
    batch_size: int = 64
    """Examples per rank and step."""
    epochs: int = 3
    steps_per_epoch: int = 0
    """0: an epoch is one pass over the data."""
    shuffle: int = 1000
    """Shuffle buffer in examples."""
    learning_rate: float = 0.001
    """For one rank; multiplied by the number of ranks."""
    warmup_epochs: float = 3.0
    precision: str = "float32"
    """float32, float16 (with dynamic loss scaling) or bfloat16."""
    accumulate: int = 1
    """Batches whose gradients make one step."""
    compression: str = "none"
    """Of what travels: none or snappy."""
    log_every: int = 10
    """Steps between metric lines."""
    tensorboard: str = ""
    """Folder in which rank 0 writes for TensorBoard, or `off`; "": `tensorboard` in the output, as SageMaker has it."""
    checkpoint_every_epochs: int = 1
    """0: not at the end of epochs, but when the training is told to stop."""
    checkpoint_every_steps: int = 0
    """0: not within epochs."""
    keep_checkpoints: int = 3
    resume: bool = True
    """Whether to go on from the newest checkpoint that is there."""
    audit: bool = True
    """Whether to count, by id, what each epoch delivered."""
    on_bad_record: str = "fail"
    """What to do with a record or image that cannot be read: `fail`, naming it, or `skip` it and count."""
    bad_record_budget: int = 100
    """More examples than so many that have to be skipped end the training all the same."""
    export: bool = True
    """Whether rank 0 writes the SavedModel at the end."""
    collective: str = "auto"
    """Strategy by which the ranks train together: auto (the job's), solo or horovod."""
    threads: int = 0
    """CPU threads of this process for TensorFlow; 0: its share of the machine's cores."""
    seed: int = -1
    """-1: the job's."""

    def __post_init__(self) -> None:
        if self.on_bad_record == "skip" and not self.audit:
            raise UsageError("--on_bad_record skip counts what it skips by the audit: leave --audit on")
        for name, low in (
            ("batch_size", 1),
            ("epochs", 1),
            ("steps_per_epoch", 0),
            ("shuffle", 0),
            ("image_size", 0),
            ("accumulate", 1),
            ("log_every", 1),
            ("checkpoint_every_epochs", 0),
            ("checkpoint_every_steps", 0),
            ("bad_record_budget", 0),
            ("step_ms", 0),
            ("keep_checkpoints", 1),
        ):
            if getattr(self, name) < low:
                raise UsageError(f"--{name} must be at least {low}, not {getattr(self, name)}")
        for name, known in (
            ("precision", ("float32", "float16", "bfloat16")),
            ("compression", ("none", "snappy")),
            ("on_bad_record", ("fail", "skip")),
            ("collective", (strategies.AUTO, *strategies.names())),
        ):
            if getattr(self, name) not in known:
                raise UsageError(f"--{name} {getattr(self, name)!r} is unknown; known: {', '.join(known)}")

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Settings:
        """From the command line; `-` and `_` in names are the same. Raises UsageError for values that do not fit."""
        return arguments.parse(cls, arguments.underscored(argv), "tfhet.trainer")[0]
