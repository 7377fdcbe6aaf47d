"""A declared pipeline in the record of a run: its stages, its cut and, of a script of one's own, the ids that came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tfhet import stages as stage_room
from tfhet.messages import rank
from tfhet.placement import Cut, Pipeline, bytes_per_example
from tfhet.steps.noted import NotedDataset
from tfhet.strategies import JobContext


def facts(pipeline: Pipeline, job: JobContext, cut: Cut | None = None) -> dict[str, Any]:
    """The fields of a run's summary that follow from the pipeline and its cut, the smallest one where none is given."""
    cut = cut or Cut.smallest(pipeline)
    served_by = "data_group" if job.mode == "heterogeneous" else "dnn_group"
    where: dict[str, str] = {}
    for index, placed in enumerate(pipeline.placed()):
        text = stage_room.text((placed.stage,))
        name = f"{text} at {placed.declared}" if text in where else text
        where[name] = served_by if job.is_served and index < cut.position else "trainer"
    wire = float(bytes_per_example(cut.spec(pipeline))) if job.is_served else None
    return {"batch_size": pipeline.batch_size, "bytes_per_example": wire, "stages_where": where}


class Deliveries:
    """The ids of the examples of a pipeline that one data set delivers, as reports."""

    def __init__(self, pipeline: Pipeline, noted: NotedDataset):
        self.count = 0
        """Number of examples delivered."""
        self._noted, self._pipeline, self._latest = noted, pipeline, 0
        self._expected = pipeline.source.example_count()
        self._held = np.zeros([2, 0], np.int64)

    def take(self, is_due: bool) -> Iterator[rank.Delivered]:
        """Takes what was delivered since the last call; yields reports of it when they are due, or it is much."""
        new = self._noted.take_ids()
        self.count += new.shape[1]
        self._held = np.concatenate([self._held, new], axis=1)
        if not self._held.size or not (is_due or self._held.shape[1] >= rank.MOST_IDS):
            return
        (ids, epochs), self._held = self._held, self._held[:, :0]
        self._latest = max(self._latest, int(epochs.max()))
        # Splits are read in the order of epochs, `interleave` at a time: nothing comes a whole epoch late, except from
        # a shuffle buffer, which may hold an example for any time.
        side_by_side = self._pipeline.interleave // max(1, self._pipeline.source.split_count())
        over = 0 if self._pipeline.shuffle else max(0, self._latest - 1 - side_by_side)
        for epoch in np.unique(epochs):
            own = ids[epochs == epoch]
            for at in range(0, len(own), rank.MOST_IDS):
                text = rank.packed(own[at : at + rank.MOST_IDS])
                yield rank.Delivered(int(epoch), text, self._expected, over)
