"""Stages that set how examples flow, and leave the images unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, ClassVar

from tfhet.stages.registry import register
from tfhet.stages.stage import Array, Count, CountOrZero, Stage, Within


class Stream(Stage):
    """A setting of the pipeline that is written as a stage with one field; images pass unchanged.

    `Pipeline(source, "shuffle(1000); random_flip()")` is `Pipeline(source, "random_flip()", shuffle=1000)`.
    """

    takes: ClassVar[tuple[str, ...]] = ("encoded", "ragged", "images")

    @property
    def setting(self) -> str:
        """Field of the pipeline that the stage sets."""
        return self.name

    def apply(self, images: Array, parameters: Mapping[str, Array]) -> Array:
        return images

    @property
    def value(self) -> int | str:
        return getattr(self, fields(self)[0].name)


@register("interleave")
class Interleave(Stream):
    """Reads several splits at the same time, one example of each in turn.

    Neighbours in a file then get into different batches, and a slow file does not delay the others. The order is fixed.
    It costs about 2 us of CPU for each example (TF 2.15). Without it, one split is read after the other.
    """

    files: Count = 4
    """Number of splits that are read at the same time. From 1."""


@register("cache")
class Cache(Stream):
    """Writes the records of a split to a directory at the first reading, and reads them from there afterwards.

    It is for slow or remote sources; the results of image stages are never kept. Each host has a cache of its own with
    the splits that its workers have read, so with several data workers it takes some passes to hold nearly all.
    """

    directory: str
    """Absolute path on every reading host, or a URL that TensorFlow can write to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.directory.startswith("/") and "://" not in self.directory:
            self.refuse(f"directory is an absolute path, because other hosts use it too; not {self.directory!r}")


@register("shuffle")
class Shuffle(Stream):
    """Takes examples from a buffer in seeded random order.

    One worker reads a split, so a split shares the buffer with those that this worker reads before and after it.
    """

    buffer: Annotated[int, Within(2)] = 1000
    """Number of examples in the buffer. From 2."""


@register("repeat")
class Repeat(Stream):
    """Reads all examples several times in one data set, each time in a new order and with new random numbers.

    The result equals that number of epochs one after the other.
    """

    epochs: CountOrZero = 0
    """Number of passes over the data; 0 for passes without end."""


@register("batch")
class Batch(Stream):
    """Sets the number of examples in a batch of one rank. The last batch of a pass holds the remaining examples."""

    size: Count = 32
    """Number of examples in a batch. From 1."""

    @property
    def setting(self) -> str:
        return "batch_size"


@register("prefetch")
class Prefetch(Stream):
    """Holds batches ready, in each data worker and again in each trainer.

    More batches bridge longer pauses of the source and take more memory. No trainer gets the batches of another.
    """

    batches: Count = 2
    """Number of batches. From 1."""
