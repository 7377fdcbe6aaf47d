"""The cut: the position in a pipeline where the data group stops and the trainer begins."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.errors import UsageError
from tfhet.placement.declaration import Declaration
from tfhet.stages import ImageSpec

_ITEM_BYTES = {"encoded": 1, "uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4}


def bytes_per_example(spec: ImageSpec) -> int:
    """Bytes of one image of this spec; a size that is not known counts as 1."""
    return (spec.height or 1) * (spec.width or 1) * spec.channels * _ITEM_BYTES[spec.dtype]


def _specs(pipeline: Declaration) -> list[ImageSpec]:
    return [pipeline.input, *(placed.output for placed in pipeline.placed())]


@dataclass(frozen=True)
class Cut:
    """Stages before `position`, in running order, run where the data is prepared; the rest on the trainer."""

    position: int

    @staticmethod
    def smallest(pipeline: Declaration) -> Cut:
        """The latest position at which an example has the fewest bytes: as much work and as few bytes as can be.
        Where the size is not known, it counts as more than any that is."""
        sizes = [(s.ragged, s.example_bytes is None, bytes_per_example(s)) for s in _specs(pipeline)]
        return Cut(max(i for i, size in enumerate(sizes) if size == min(sizes)))

    def checked(self, pipeline: Declaration) -> Cut:
        """Itself. Raises UsageError when the pipeline has no such position."""
        last = len(pipeline.placed())
        if not 0 <= self.position <= last:
            raise UsageError(f"the cut must lie between 0 and {last} for this pipeline, not at {self.position}")
        if self.spec(pipeline).ragged:
            stage = pipeline.placed()[self.position - 1].stage.name
            raise UsageError(f"the cut cannot lie behind {stage}: images of many sizes make no batch")
        return self

    def spec(self, pipeline: Declaration) -> ImageSpec:
        """What crosses the wire, per example."""
        return pipeline.placed()[self.position - 1].output if self.position else pipeline.input
