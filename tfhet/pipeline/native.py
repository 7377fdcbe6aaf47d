"""Native execution of a declared pipeline: batches as NumPy arrays, by the compiled core, without a framework.

    maker = BatchMaker(pipeline)
    order = maker.order(epoch=0)
    images, labels = maker.make(order[0:64], epoch=0)

Any process makes the same batch of the same places; threads may share a maker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfhet.errors import DataError, UsageError
from tfhet.pipeline.order import EpochOrder
from tfhet.pipeline.pipeline import IMAGE, LABEL, Pipeline, label_spec
from tfhet.source import ArraySpec, IndexedSource, ids_at, source_as_json, source_from_json
from tfhet.stages import CompiledChain, text

_UNSUPPORTED = ("interleave", "cache", "repeat", "record_parameters")
"""Fields of a pipeline that only tf.data has."""


class BatchMaker:
    """Makes batches of a pipeline by the places of their examples in the source."""

    def __init__(
        self, pipeline: Pipeline, *, threads: int = 1, allocate: Callable[[int], np.ndarray] | None = None
    ) -> None:
        """
        Args:
            threads: Number of threads that work on one batch.
            allocate: Returns memory for the images of a batch, uint8 [n]; None: new arrays.

        Raises:
            UsageError: The source or a setting needs tf.data.
        """
        self.pipeline, self._threads, self._allocate = pipeline, threads, allocate
        self.source: IndexedSource = checked(pipeline)
        self._sizes = self.source.sizes()
        self.chain = CompiledChain(pipeline.image_stages, pipeline.reorder, pipeline.fuse)
        self._has_labels = LABEL in self.source.spec

    def __len__(self) -> int:
        """Returns the number of examples of an epoch."""
        return int(self._sizes.sum())

    def order(self, epoch: int) -> EpochOrder:
        settings = {name: getattr(self.pipeline, name) for name in ("shuffle", "shuffle_splits", "seed")}
        return EpochOrder(self._sizes.tolist(), **settings, epoch=epoch)

    def ids(self, places: np.ndarray) -> np.ndarray:
        """Returns the ids of examples, int64 [n], by their places in the source, int64 [n]."""
        return ids_at(places, self._sizes)

    def make(self, places: np.ndarray, epoch: int) -> Any:
        """Returns the images of examples, uint8 or float32 [n, height, width, channels], and their labels [n, ...] if
        the source has labels. places: int64 [n]. Raises DataError, with the file, for one that cannot be decoded."""
        ids = self.ids(places)
        features = self.source.load(ids)
        images, labels = features[IMAGE], features.get(LABEL)
        call: dict[str, Any] = {"ids": ids, "seed": self.pipeline.seed, "epoch": epoch, "threads": self._threads}
        if labels is not None:
            call["labels"] = labels
        try:
            return self.chain(images, out=self._out(images), **call)
        except UsageError as error:
            raise self._explained(error, images, ids) from None

    def _out(self, images: Any) -> np.ndarray | None:
        """Returns memory for the result; None if its size is not known, or nobody gives any."""
        made = self.pipeline.output
        if self._allocate is None or made.height is None or made.width is None or made.example_bytes is None:
            return None
        shape = (len(images), made.height, made.width, made.channels)
        return self._allocate(len(images) * made.example_bytes).view(made.dtype).reshape(shape)

    def _explained(self, error: UsageError, images: Any, ids: np.ndarray) -> Exception:
        """Returns the error of the example that a batch failed for, with its file."""
        for at, id in enumerate(ids.tolist()):
            one = [images[at]] if isinstance(images[at], bytes) else images[at : at + 1]
            try:
                self.chain(one, ids=ids[at : at + 1], seed=self.pipeline.seed)
            except UsageError as own:
                file, offset = self.source.places([id])[0]
                where = f"{file}{f' at byte {offset}' if offset else ''}" if file else f"example {id}"
                return DataError(f"{where} cannot be decoded: {own}", file or None, offset)
        return error


def checked(pipeline: Pipeline) -> IndexedSource:
    """Returns the pipeline's source. Raises UsageError for what only tf.data can run."""
    source = pipeline.source
    if not isinstance(source, IndexedSource) or not source.can_load():
        raise UsageError(f"the source {source.name} of this data can only be read by TensorFlow: use tfhet.distribute")
    defaults = {each.name: each.default for each in dataclasses.fields(Pipeline)}
    for name in _UNSUPPORTED:
        if getattr(pipeline, name) != defaults[name]:
            raise UsageError(
                f"{name} is for pipelines that tf.data runs (tfhet.distribute): omit it"
                + ("; shuffle=True reads all examples in a new order" if name == "interleave" else "")
            )
    return source


def is_native(pipeline: Pipeline) -> bool:
    """Whether tf.data cannot run a pipeline: it has a full shuffle, or a source without TensorFlow's methods."""
    return pipeline.shuffle is True or not hasattr(pipeline.source, "parse")


def runs_natively(pipeline: Pipeline) -> bool:
    """Whether `BatchMaker` can run a pipeline."""
    try:
        checked(pipeline)
    except UsageError:
        return False
    return True


def as_json(pipeline: Pipeline) -> dict[str, Any]:
    """Returns a pipeline as JSON values, for other hosts. Raises UsageError for a source that they cannot make."""
    source = checked(pipeline)
    fields = {each.name: getattr(pipeline, each.name) for each in dataclasses.fields(pipeline)}
    return {**fields, "stages": text(pipeline.image_stages), "source": source_as_json(source)}


def from_json(document: Mapping[str, Any]) -> Pipeline:
    """Makes the pipeline of `as_json`."""
    return Pipeline(**{**document, "source": source_from_json(document["source"])})


def differences(pipeline: Pipeline) -> dict[str, Any]:
    """Returns what decides the content of an epoch, by name, as short JSON values: two runs that agree about it read
    the same examples in the same order."""
    fields = {name: getattr(pipeline, name) for name in ("seed", "shuffle", "shuffle_splits", "reorder")}
    return {"data": pipeline.source.fingerprint(), "stages": text(pipeline.image_stages), **fields}


def element_spec(pipeline: Pipeline) -> tuple[ArraySpec, ...]:
    """Returns the specs of the arrays of a batch."""
    made = pipeline.output
    images = ArraySpec((None, made.height, made.width, made.channels), made.dtype)
    labels = label_spec(pipeline.source.spec, pipeline.placed())
    return (images,) if labels is None else (images, labels)
