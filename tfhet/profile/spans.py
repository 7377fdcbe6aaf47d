"""The parts of a declared pipeline after its source: spans of stages that can run without the others."""

from __future__ import annotations

from typing import NamedTuple

from tfhet import stages as stage_room
from tfhet.pipeline import Pipeline


class Span(NamedTuple):
    name: str
    """Text of its stages, unique in the pipeline."""
    begin: int
    """Number of stages before it, in running order."""
    end: int


def spans_of(pipeline: Pipeline) -> list[Span]:
    """Returns the parts of the stages. Fused stages are one part, and so are an operation with images of different
    sizes and the next one."""
    found: list[Span] = []
    names: list[str] = []
    begin = end = 0
    for step in pipeline.steps():
        end += len(step.stages)
        names.append(stage_room.text(tuple(placed.stage for placed in step.stages)))
        if step.stages[-1].output.ragged and end < len(pipeline.placed()):
            continue
        name, taken = "; ".join(names), {span.name for span in found}
        if name in taken:
            name = next(f"{name} ({number})" for number in range(2, 99) if f"{name} ({number})" not in taken)
        found.append(Span(name, begin, end))
        names, begin = [], end
    return found
