"""Lowering: the declared pipeline becomes tf.data, split at the cut.

Elements are dicts of batched tensors:
    image  uint8|float32 [batch, height, width, channels]
    label  as the source gives it, [batch]
    id     int64 [batch]: split << 32 | position in the split
    epoch  int64 [batch], from 0
and, with `record_parameters`, one entry for each drawn parameter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.pipeline.native import BatchMaker, element_spec, is_native
from tfhet.pipeline.pipeline import EPOCH, ID, IMAGE, LABEL, Cut, Pipeline, relabelled
from tfhet.pipeline.reading import Rest, batches, skips
from tfhet.pipeline.settings import passes
from tfhet.source import example_id
from tfhet.stages import ImageSpec, PlacedStage, Program, randomness, tensor_chain


def one_epoch(
    pipeline: Pipeline,
    epoch: int | None = 0,
    share: tuple[int, int] = (0, 1),
    threads: int | None = None,
    rest: Rest | None = None,
    begun: bool = False,
) -> tf.data.Dataset:
    """Returns the batches of one epoch, prepared in this process. epoch: None for epoch after epoch, without end.
    share: (index, count) selects the splits index, index + count, ... threads: number of batches in preparation; None
    for one per core. rest: the examples that are still to be read; None for all. begun: see `local_part`."""
    if is_native(pipeline):
        return _native_epoch(pipeline, epoch or 0, threads or os.cpu_count() or 1)
    cut, threads = Cut.smallest(pipeline), threads or os.cpu_count() or 1
    ordered = len(passes(pipeline.repeat, epoch)) > 1
    remote = remote_part(pipeline, epoch, cut, share, threads, rest)
    return local_part(pipeline, remote, cut, threads, ordered, begun=begun)


def _native_epoch(pipeline: Pipeline, epoch: int, threads: int) -> tf.data.Dataset:
    """Returns the batches of one epoch of a pipeline that tf.data cannot run."""
    maker = BatchMaker(pipeline, threads=threads)
    order, specs = maker.order(epoch), element_spec(pipeline)
    signature = dict(zip((IMAGE, LABEL), (spec.tensor for spec in specs), strict=False))
    signature |= {name: tf.TensorSpec([None], tf.int64) for name in (ID, EPOCH)}

    def batches() -> Iterator[dict[str, Any]]:
        size = pipeline.batch_size
        parts = [slice(begin, begin + size) for begin in range(0, len(order), size)]
        maker.read_ahead(order[part] for part in parts)
        for part in parts:
            made = maker.make(order[part], epoch)
            values = made.value if len(specs) > 1 else (made.value,)
            yield {
                **dict(zip((IMAGE, LABEL), values, strict=False)),
                ID: made.ids,
                EPOCH: np.full_like(made.ids, epoch),
            }

    made = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return without_autotune(made.prefetch(pipeline.prefetch))


def one_by_one(pipeline: Pipeline, epoch: int, ids: np.ndarray, threads: int) -> tf.data.Dataset:
    """Returns the examples `ids` (int64 [n]) of an epoch, read and prepared one by one, without bad ones."""
    prepare = preparation(pipeline, epoch)

    def one(split: tf.Tensor, position: tf.Tensor, record: Any) -> dict:
        alone = tf.nest.map_structure(lambda part: part[tf.newaxis], record)
        return prepare(example_id(split, position)[tf.newaxis], alone)

    read = pipeline.source.read_at(ids).map(_as_written(one), num_parallel_calls=threads, deterministic=True)
    return without_autotune(read.ignore_errors().rebatch(pipeline.batch_size).prefetch(pipeline.prefetch))


def preparation(pipeline: Pipeline, epoch: int) -> Callable[[tf.Tensor, Any], dict]:
    """Returns a function that runs the whole pipeline on (ids int64 [n], records [n] as the source reads them)."""

    def prepare(ids: tf.Tensor, records: Any) -> dict:
        epochs = tf.fill(tf.shape(ids), tf.constant(epoch, tf.int64))
        return _run_stages(pipeline, {**pipeline.source.parse(records), ID: ids, EPOCH: epochs}, 0, None)

    return prepare


def remote_part(
    pipeline: Pipeline,
    epoch: int | None,
    cut: Cut | None = None,
    share: tuple[int, int] = (0, 1),
    threads: int = tf.data.AUTOTUNE,
    rest: Rest | None = None,
) -> tf.data.Dataset:
    """Returns what the data group runs: reading, batching and the stages before the cut. epoch: None for an endless
    data set. rest: the examples that are still to be read, in the same order; None for all. Raises UsageError for a cut
    or share that the pipeline does not have."""
    cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
    dataset, parse = batches(pipeline, epoch, share, rest)

    def prepare(*batch: Any) -> dict:
        return _run_stages(pipeline, parse(*batch), 0, cut.position)

    # One thread prepares one batch, so that no stage waits for the share of another thread. Over several passes batches
    # stay in order: else batches of the next pass would come before the last ones of this pass.
    ordered = len(passes(pipeline.repeat, epoch)) > 1
    if not skips(pipeline):
        dataset = dataset.map(_as_written(prepare), num_parallel_calls=threads, deterministic=ordered)
        return dataset.prefetch(pipeline.prefetch)
    if cut.spec(pipeline).dtype == "encoded":
        raise UsageError(
            f"bad records are to be skipped, but the cut at {cut.position} leaves decoding to the trainer: move "
            "it after the stage that decodes"
        )

    def prepare_good(*batch: Any) -> tf.data.Dataset:
        whole = tf.data.Dataset.from_tensors(batch).map(_as_written(prepare)).ignore_errors()
        single = tf.data.Dataset.from_tensor_slices(batch).batch(1).map(_as_written(prepare)).ignore_errors()
        return whole.concatenate(single.rebatch(pipeline.batch_size)).take(1)

    cycle = None if threads == tf.data.AUTOTUNE else threads
    dataset = dataset.interleave(_as_written(prepare_good), cycle, num_parallel_calls=threads, deterministic=ordered)
    return dataset.prefetch(pipeline.prefetch)


def local_part(
    pipeline: Pipeline,
    dataset: tf.data.Dataset,
    cut: Cut | None = None,
    threads: int = 2,
    ordered: bool = False,
    end: int | None = None,
    begun: bool = False,
) -> tf.data.Dataset:
    """Returns what the trainer runs: the stages after the cut on the batches of `dataset`, with `prefetch` ahead. Few
    batches are prefetched, because other ranks cannot get those that one rank holds. ordered: whether batches keep
    their order. end: position at which the stages end; None for all of them. begun: whether a batch without an example
    comes first, which is there at once: who takes it begins the work on the others, in TensorFlow's threads."""
    cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
    if pipeline.placed()[cut.position : end]:
        dataset = dataset.map(
            _as_written(lambda element: _run_stages(pipeline, element, cut.position, end)),
            num_parallel_calls=threads,
            deterministic=ordered,
        )
    if begun:
        first = {name: tf.zeros([n or 0 for n in one.shape], one.dtype) for name, one in dataset.element_spec.items()}
        dataset = tf.data.Dataset.from_tensors(first).concatenate(dataset)
    return without_autotune(dataset.prefetch(pipeline.prefetch))


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the data set without autotuning, for one that ends before its process. Ending an iterator whose autotuner
    sleeps can lose the wake-up and wait for the end of that sleep, up to 60 s (seen on TF 2.15.1: `Model::OptimizeLoop`
    under `~IteratorResource`), while all other ranks of a training wait."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _as_written(function: Callable[..., dict]) -> Callable[..., dict]:
    """Returns the function without AutoGraph, which would turn the errors of stages and sources into its own. A stage
    that needs Python's `if` or `while` on tensors can put them into a tf.function."""
    return tf.autograph.experimental.do_not_convert(function)


def _run_stages(pipeline: Pipeline, element: dict, begin: int, end: int | None) -> dict:
    element = dict(element)
    program = Program.of(pipeline.placed()[begin:end], pipeline.specs()[begin], pipeline.fuse)
    for segment in program.segments:
        if segment.chain is None:
            ((place,), spec) = segment.stages, segment.steps[0].input
            drawn = [_drawn(pipeline, element, place, spec)]
            images = place.stage.apply(element[IMAGE], drawn[0])
        else:
            images, drawn = tensor_chain.run(segment, element[IMAGE], element[ID], element[EPOCH], pipeline.seed)
        placed = segment.stages
        element[IMAGE] = _shaped(images, placed[-1])
        if LABEL in element:
            element[LABEL] = relabelled(element[LABEL], placed, drawn)
        if pipeline.record_parameters:
            for each, own in zip(placed, drawn, strict=True):
                name = f"{each.stage.name}:{each.declared}"
                element.update({f"{name}/{parameter}": value for parameter, value in own.items()})
    return element


def _drawn(pipeline: Pipeline, element: dict, placed: PlacedStage, spec: ImageSpec) -> dict[str, tf.Tensor]:
    if not (stage := placed.stage).random:
        return {}
    keys = randomness.keys(pipeline.seed, stage.name, placed.declared, element[EPOCH], element[ID])
    return stage.parameters(keys, spec)


def _shaped(images: tf.Tensor, placed: PlacedStage) -> tf.Tensor:
    """Gives the images the shape that the stage promised. Raises UsageError when they do not have it."""
    if placed.output.ragged:
        return images
    promised = placed.output.tensor
    if images.dtype != promised.dtype or not images.shape.is_compatible_with(promised.shape):
        raise UsageError(
            f"stage {placed.stage.name} promised {promised.dtype.name} {promised.shape} "
            f"but made {images.dtype.name} {images.shape}"
        )
    images.set_shape(promised.shape)
    return images
