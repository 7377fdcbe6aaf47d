"""Lowering: the declared pipeline becomes tf.data, split at the cut.

Elements are dicts of batched tensors:
    image  uint8|float32 [batch, height, width, channels]
    label  as the source gives it, [batch]
    id     int64 [batch]: split << 32 | position in the split
    epoch  int64 [batch], from 0
and, with `record_parameters`, one entry for each drawn parameter.

Reading starts from a stream of (epoch, split) pairs, which tf.data service deals out to workers under DYNAMIC sharding.
The epoch travels with the pair, so that one graph serves one epoch or any number of them, and so that the seeds (run
seed, stage and position, epoch, id) never depend on the process that does the work.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.placement import stream
from tfhet.placement.cut import Cut
from tfhet.placement.declaration import EPOCH, ID, IMAGE, LABEL, Declaration, PlacedStage
from tfhet.placement.fusion import Step, fuse, unfused
from tfhet.placement.labels import relabelled
from tfhet.placement.rest import Rest
from tfhet.source import BlockSource, Source, example_id
from tfhet.stages import ImageSpec, randomness

_ENDLESS_PASSES = 1 << 31  # a range whose end is never reached, and that tf.data service can split


def one_epoch(
    pipeline: Declaration,
    epoch: int | None = 0,
    share: tuple[int, int] = (0, 1),
    threads: int | None = None,
    rest: Rest | None = None,
) -> tf.data.Dataset:
    """Returns the batches of one epoch, prepared in this process.

    epoch: None for epoch after epoch, without end. share: (index, count) selects the splits index, index + count, ...
    threads: number of batches that are prepared at the same time; None for one per core. rest: the examples of the
    epoch that are still to be read; None for all.
    """
    cut, threads = Cut.smallest(pipeline), threads or os.cpu_count() or 1
    ordered = len(_passes(pipeline, epoch)) > 1
    return local_part(pipeline, remote_part(pipeline, epoch, cut, share, threads, rest), cut, threads, ordered)


def one_by_one(pipeline: Declaration, epoch: int, ids: np.ndarray, threads: int) -> tf.data.Dataset:
    """Returns the examples `ids` (int64 [n]) of an epoch, each read and prepared by itself, without bad ones."""
    prepare = preparation(pipeline, epoch)

    def one(split: tf.Tensor, position: tf.Tensor, record: Any) -> dict:
        alone = tf.nest.map_structure(lambda part: part[tf.newaxis], record)
        return prepare(example_id(split, position)[tf.newaxis], alone)

    read = pipeline.source.read_at(ids).map(_as_written(one), num_parallel_calls=threads, deterministic=True)
    return without_autotune(read.ignore_errors().rebatch(pipeline.batch_size).prefetch(pipeline.prefetch))


def preparation(pipeline: Declaration, epoch: int) -> Callable[[tf.Tensor, Any], dict]:
    """Returns a function that runs the whole pipeline on (ids int64 [n], records [n] as the source reads them)."""

    def prepare(ids: tf.Tensor, records: Any) -> dict:
        element = {
            **pipeline.source.parse(records),
            ID: ids,
            EPOCH: tf.fill(tf.shape(ids), tf.constant(epoch, tf.int64)),
        }
        return _run_stages(pipeline, element, 0, None)

    return prepare


def remote_part(
    pipeline: Declaration,
    epoch: int | None,
    cut: Cut | None = None,
    share: tuple[int, int] = (0, 1),
    threads: int = tf.data.AUTOTUNE,
    rest: Rest | None = None,
) -> tf.data.Dataset:
    """Returns what the data group runs: reading, batching and the stages before the cut.

    epoch: None for an endless data set. rest: the examples that are still to be read, in the same order; None for all.
    Raises UsageError for a cut or share that the pipeline does not have.
    """
    cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
    pairs = _pairs(pipeline, epoch, share, rest)
    if _in_blocks(pipeline) and (rest is None or not rest.seen.size):
        dataset, parse = _block_batches(pipeline, pairs), _parsed
    else:
        dataset = _record_batches(pipeline, pairs, epoch, rest)
        parse = functools.partial(_parse, pipeline.source)

    def prepare(*batch: Any) -> dict:
        return _run_stages(pipeline, parse(*batch), 0, cut.position)

    # One thread prepares one batch, so that no stage waits for the share of another thread. Over several passes batches
    # stay in order: else batches of the next pass would come before the last ones of this pass.
    ordered = len(_passes(pipeline, epoch)) > 1
    dataset = dataset.map(_as_written(prepare), num_parallel_calls=threads, deterministic=ordered)
    if skips(pipeline):
        if cut.spec(pipeline).dtype == "encoded":
            raise UsageError(
                f"bad records are to be skipped, but the cut at {cut.position} leaves decoding to the trainer: move "
                "it after the stage that decodes"
            )
        dataset = dataset.ignore_errors()  # omits a batch with a bad record; its good records are read later
    return dataset.prefetch(pipeline.prefetch)


def skips(pipeline: Declaration) -> bool:
    """Whether records that cannot be read are omitted."""
    return getattr(pipeline.source, "on_bad_record", "fail") == "skip"


def local_part(
    pipeline: Declaration,
    dataset: tf.data.Dataset,
    cut: Cut | None = None,
    threads: int = 2,
    ordered: bool = False,
) -> tf.data.Dataset:
    """Returns what the trainer runs: the stages after the cut on the batches of `dataset`, with `prefetch` ahead.

    Few batches are prefetched, because other ranks cannot get those that one rank holds. ordered: whether batches keep
    their order.
    """
    cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
    if cut.position < len(pipeline.placed()):
        dataset = dataset.map(
            _as_written(lambda element: _run_stages(pipeline, element, cut.position, None)),
            num_parallel_calls=threads,
            deterministic=ordered,
        )
    return without_autotune(dataset.prefetch(pipeline.prefetch))


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the data set without autotuning, for one that ends before its process.

    Ending an iterator whose autotuner sleeps can lose the wake-up and wait for the end of that sleep, up to 60 s (seen
    on TF 2.15.1: `Model::OptimizeLoop` under `~IteratorResource`), while all other ranks of a training wait.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _pairs(
    pipeline: Declaration, epoch: int | None, share: tuple[int, int], rest: Rest | None = None
) -> tf.data.Dataset:
    """Returns the stream of (epoch, split), both int64 []: one pass over the splits after another."""
    index, count = share
    every = pipeline.source.split_count()
    splits = every if rest is None else rest.split_count
    if not 0 <= index < count:
        raise UsageError(f"share {index} of {count} does not exist")
    if count > splits and rest is None:
        raise UsageError(
            f"source {pipeline.source.name} has {splits} splits, too few for {count} ranks; "
            f"write at least {4 * count} files, or use data workers"
        )
    mine = (splits - index + count - 1) // count

    def pair(at_epoch: tf.Tensor, place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        order = tf.range(every, dtype=tf.int64)
        if pipeline.shuffle_splits:
            seed = tf.stack([tf.constant(pipeline.seed, tf.int64), at_epoch])
            order = tf.random.experimental.stateless_shuffle(order, seed)
        if rest is not None:
            order = tf.boolean_mask(order, tf.gather(tf.constant(rest.splits), order))
        return at_epoch, order[index + place * count]

    passes = _passes(pipeline, epoch)
    return tf.data.Dataset.range(len(passes) * mine).map(lambda i: pair(passes.start + i // mine, i % mine))


def _passes(pipeline: Declaration, epoch: int | None) -> range:
    return stream.passes(pipeline.repeat, epoch) or range(_ENDLESS_PASSES)


def _record_batches(
    pipeline: Declaration, pairs: tf.data.Dataset, epoch: int | None, rest: Rest | None = None
) -> tf.data.Dataset:
    """Returns batches of ((epoch, split), (position, record)); no function call per example, except for a rest."""
    kind = "skip-" if skips(pipeline) else ""  # a cache that was written so may lack records
    fingerprint = kind + pipeline.source.fingerprint() if pipeline.cache else ""

    def read(at_epoch: tf.Tensor, split: tf.Tensor) -> tf.data.Dataset:
        constant = tf.data.Dataset.from_tensors((at_epoch, split)).repeat()
        records = pipeline.source.read(split)
        if pipeline.cache:
            records = stream.cached(records, pipeline.cache, fingerprint, split)
        if skips(pipeline):
            records = records.ignore_errors()
        return tf.data.Dataset.zip((constant, records))

    dataset = stream.read_side_by_side(pairs, read, pipeline.interleave)
    if rest is not None and rest.seen.size:
        dataset = dataset.filter(_unseen(rest))
    if pipeline.shuffle:
        seed = _fold(pipeline.seed, 0 if epoch is None else epoch)
        dataset = dataset.shuffle(pipeline.shuffle, seed=seed, reshuffle_each_iteration=False)
    return dataset.batch(pipeline.batch_size)


def _unseen(rest: Rest) -> Callable[..., tf.Tensor]:
    seen = tf.constant(rest.seen, tf.int64)

    def unseen(pair: tuple[tf.Tensor, tf.Tensor], record: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        number = example_id(pair[1], record[0])
        place = tf.minimum(tf.searchsorted(seen, number[tf.newaxis], out_type=tf.int64)[0], len(rest.seen) - 1)
        return tf.gather(seen, place) != number

    return unseen


def _parse(source: Source, pair: tuple[tf.Tensor, tf.Tensor], record: tuple[tf.Tensor, tf.Tensor]) -> dict:
    (epochs, splits), (positions, records) = pair, record
    return {**source.parse(records), ID: example_id(splits, positions), EPOCH: epochs}


def _in_blocks(pipeline: Declaration) -> bool:
    """Whether the source reads blocks. A shuffle buffer, a cache and interleaved files take examples one by one."""
    if pipeline.shuffle or pipeline.cache or pipeline.interleave > 1:
        return False
    return isinstance(pipeline.source, BlockSource) and pipeline.source.reads_blocks()


def _block_batches(pipeline: Declaration, pairs: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same batches as (ids, epochs, features) from blocks, without an iterator step for each example."""
    source = pipeline.source
    assert isinstance(source, BlockSource)
    blocks = pairs.interleave(
        lambda epoch, split: source.read_blocks(split, epoch), cycle_length=1, num_parallel_calls=None
    )
    return blocks.rebatch(pipeline.batch_size)


def _parsed(ids: tf.Tensor, epochs: tf.Tensor, features: dict[str, tf.Tensor]) -> dict:
    return {**features, ID: ids, EPOCH: epochs}


def _as_written(function: Callable[..., dict]) -> Callable[..., dict]:
    """Returns the function without AutoGraph, which would turn the errors of stages and sources into its own.

    A stage that needs Python's `if` or `while` on tensors can put them into a tf.function.
    """
    return tf.autograph.experimental.do_not_convert(function)


def _run_stages(pipeline: Declaration, element: dict, begin: int, end: int | None) -> dict:
    element = dict(element)
    for step in steps(pipeline, begin, end):
        drawn = [_drawn(pipeline, element, *each) for each in zip(step.stages, step.inputs, strict=True)]
        element[IMAGE] = _shaped(step.run(element[IMAGE], drawn), step.stages[-1])
        if LABEL in element:
            element[LABEL] = relabelled(element[LABEL], step.stages, drawn)
        if pipeline.record_parameters:
            for placed, own in zip(step.stages, drawn, strict=True):
                element.update({f"{placed.key}/{name}": value for name, value in own.items()})
    return element


def steps(pipeline: Declaration, begin: int = 0, end: int | None = None) -> tuple[Step, ...]:
    """Returns the operations of the stages from position `begin` up to `end`, in order."""
    spec = pipeline.input if begin == 0 else pipeline.placed()[begin - 1].output
    return (fuse if pipeline.fuse else unfused)(pipeline.placed()[begin:end], spec)


def _drawn(pipeline: Declaration, element: dict, placed: PlacedStage, spec: ImageSpec) -> dict[str, tf.Tensor]:
    stage = placed.stage
    if not stage.random:
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


def _fold(seed: int, epoch: int) -> int:
    """Returns one 31-bit seed for two numbers (Knuth's multiplicative hash)."""
    return (seed * 2654435761 + epoch * 40503 + 1) & 0x7FFFFFFF
