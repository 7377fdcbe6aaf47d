"""The cut: the position in a pipeline where the data group stops and the trainer begins."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.errors import UsageError
from tfhet.placement.declaration import Declaration
from tfhet.stages import ImageSpec

_ITEM_BYTES = {"encoded": 1, "uint8": 1, "float32": 4}


def bytes_per_example(spec: ImageSpec) -> int:
    """Returns the bytes of one image of this spec; an unknown height or width counts as 1."""
    return (spec.height or 1) * (spec.width or 1) * spec.channels * _ITEM_BYTES[spec.dtype]


@dataclass(frozen=True)
class Cut:
    """Stages before `position`, in running order, run where the data is prepared; the rest on the trainer."""

    position: int
    """Number of stages before the cut, from 0."""

    @staticmethod
    def smallest(pipeline: Declaration) -> Cut:
        """Returns the latest position at which an example has the fewest bytes; unknown sizes count as the largest."""
        sizes = [(s.ragged, s.example_bytes is None, bytes_per_example(s)) for s in pipeline.specs()]
        return Cut(len(sizes) - 1 - sizes[::-1].index(min(sizes)))

    def checked(self, pipeline: Declaration) -> Cut:
        """Returns this cut. Raises UsageError when the pipeline has no such position."""
        last = len(pipeline.placed())
        if not 0 <= self.position <= last:
            raise UsageError(f"the cut must lie between 0 and {last} for this pipeline, not at {self.position}")
        if self.spec(pipeline).ragged:
            stage = pipeline.placed()[self.position - 1].stage.name
            raise UsageError(f"the cut cannot lie after {stage}: images of different sizes cannot be batched")
        return self

    def spec(self, pipeline: Declaration) -> ImageSpec:
        """Returns the spec of the images that are sent from the data group to the trainer."""
        return pipeline.specs()[self.position]
