"""A declared pipeline in the record of a run: its stages, its cut, and when a pass of it is over."""

from __future__ import annotations

from typing import Any

from tfhet import stages as stage_room
from tfhet.pipeline import Cut, Pipeline, bytes_per_example
from tfhet.strategies import JobContext


def facts(pipeline: Pipeline, job: JobContext, is_native: bool = False, cut: Cut | None = None) -> dict[str, Any]:
    """The fields of a run's summary that follow from the pipeline and its cut, the smallest one where none is given.
    A native pipeline is not cut: it runs as a whole on the hosts that serve."""
    cut = Cut(len(pipeline.placed())) if is_native else cut or Cut.smallest(pipeline)
    served_by = "data_group" if job.mode == "heterogeneous" else "dnn_group"
    where: dict[str, str] = {}
    for index, placed in enumerate(pipeline.placed()):
        text = stage_room.text((placed.stage,))
        name = f"{text} at {placed.declared}" if text in where else text
        where[name] = served_by if job.is_served and index < cut.position else "trainer"
    wire = float(bytes_per_example(cut.spec(pipeline))) if job.is_served else None
    return {"batch_size": pipeline.batch_size, "bytes_per_example": wire, "stages_where": where}


def examples_in_epoch(pipeline: Pipeline, job: JobContext) -> int | None:
    """Returns the number of examples that the ranks read in an epoch; None if it is unknown."""
    count = pipeline.source.example_count()
    return count - count % (pipeline.batch_size * job.size) if count and pipeline.drop_last else count


def late_passes(pipeline: Pipeline) -> int | None:
    """The number of passes by which an example may come late. Splits are read in the order of epochs, `interleave` at a
    time: nothing comes a whole epoch late, except from a shuffle buffer, which may hold an example for any time: None.
    """
    return None if pipeline.shuffle else pipeline.interleave // max(1, pipeline.source.split_count())
