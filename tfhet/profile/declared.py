"""The parts of a declared pipeline: reading, then its operations as they run."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfhet import stages as stage_room
from tfhet.placement import Cut, Pipeline, local_part, remote_part, steps
from tfhet.profile.part import PipelinePart

READING = "read, parse and batch"


def parts_of_pipeline(pipeline: Pipeline) -> list[PipelinePart]:
    """Returns the parts, all in one process and on one thread. Stages that are fused are one part.

    An operation whose results cannot be batched (images of different sizes) is joined with the next one.
    """
    batch, end = pipeline.batch_size, 0
    parts = [PipelinePart(READING, remote_part(pipeline, None, Cut(0), threads=1), batch, kind="Source")]
    names: list[str] = []
    begin = 0
    for step in steps(pipeline):
        end += len(step.stages)
        names.append(stage_room.text(tuple(placed.stage for placed in step.stages)))
        if step.stages[-1].output.ragged and end < len(pipeline.placed()):
            continue
        name = "; ".join(names)
        taken = {part.name for part in parts}
        if name in taken:
            name = next(f"{name} ({number})" for number in range(2, 99) if f"{name} ({number})" not in taken)
        upto = remote_part(pipeline, None, Cut(end), threads=1)
        parts.append(PipelinePart(name, upto, batch, _alone(pipeline, begin, end), _idle, kind="Stage"))
        names, begin = [], end
    return parts


def _alone(pipeline: Pipeline, begin: int, end: int) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    def apply(dataset: tf.data.Dataset) -> tf.data.Dataset:
        return local_part(pipeline, dataset, Cut(begin), threads=1, end=end)

    return apply


def _idle(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same iterators without a stage, which the whole pipeline has once for all stages."""
    return dataset.map(lambda element: element, num_parallel_calls=1).prefetch(2)
