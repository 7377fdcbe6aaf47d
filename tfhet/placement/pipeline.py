"""The declared pipeline: a value that says what happens to every example, but not on which host.

    from tfhet import Pipeline, SyntheticSource

    pipeline = Pipeline(SyntheticSource(10_000, 16), "random_flip(); rescale()", batch_size=64, seed=1)
    print(pipeline.explain())  # the stages in running order, the bytes after each, the cut
    for batch in pipeline.dataset(epoch=0):
        batch["image"], batch["label"], batch["id"]

`tfhet.distribute(pipeline)` runs the same declaration on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import tensorflow as tf

from tfhet import stages as stage_room
from tfhet.placement import lowering
from tfhet.placement.declaration import Cut, Declaration, bytes_per_example
from tfhet.stages import ImageSpec, Stage


@dataclass(frozen=True)
class Pipeline(Declaration):
    """Source, stages and batching of one data set. Nothing is read or built until it is lowered. Raises UsageError for
    stages that do not fit the source, and for numbers out of range."""

    def with_stages(self, stages: tuple[Stage, ...] | str) -> Pipeline:
        """Returns the same pipeline with other stages."""
        return replace(self, stages=stages)

    def dataset(self, epoch: int = 0) -> tf.data.Dataset:
        """Returns the batches of one epoch, prepared in this process. Elements: see `tfhet.placement.lowering`."""
        return lowering.one_epoch(self, epoch)

    def explain(self) -> str:
        """Returns a description for people: a line for each stage in running order, with the bytes and the spec of an
        example after it, fused operations, and the default cut."""
        cut, latest = Cut.smallest(self), -1
        lines = [_line(f"source: {self.source.name}", self.input)]
        for begin, end in ((0, cut.position), (cut.position, None)):
            for step in lowering.steps(self, begin, end):
                for placed in step.stages:
                    moved = "  (moved after its neighbours)" if placed.declared < latest else ""
                    latest = max(latest, placed.declared)
                    gutter = "  " if len(step.stages) == 1 else "| "
                    lines.append(_line(gutter + stage_room.text((placed.stage,)), placed.output) + moved)
                if step.does:
                    lines.append(f"  = {step.does}")
            if begin == 0 and cut.position < len(self.placed()):
                lines.append(f"{'-- cut: above on the data group, below on the trainer ':-<80}")
        return "\n".join(lines)


def _line(text: str, spec: ImageSpec) -> str:
    if spec.dtype == "encoded":
        return f"{text:<48}{'?':>9} B  image files"
    size = "x".join("?" if n is None else str(n) for n in (spec.height, spec.width, spec.channels))
    count = "?" if spec.example_bytes is None else bytes_per_example(spec)
    return f"{text:<48}{count:>9} B  {spec.dtype} {size} in [{spec.low:g}, {spec.high:g}]"
