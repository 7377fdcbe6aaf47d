"""Lowering: the declared pipeline becomes tf.data, split at the cut.

Elements are dicts of batched tensors:
    image  uint8|float32 [batch, height, width, channels]
    label  as the source gives it, [batch]
    id     int64 [batch]: split << 32 | position in the split
    epoch  int64 [batch], from 0
and, with `record_parameters`, one entry for each drawn parameter.

Reading starts from a stream of (epoch, split) pairs: that stream is what tf.data service deals out under DYNAMIC
sharding, one split a file. The epoch travels with the pair, so one graph serves one epoch or endlessly many, and the
seeds (run seed, stage and position, epoch, id) never depend on who does the work.
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

_ENDLESS_PASSES = 1 << 31  # a range that nobody reaches the end of, and that stays splittable


def one_epoch(
    pipeline: Declaration,
    epoch: int | None = 0,
    share: tuple[int, int] = (0, 1),
    threads: int | None = None,
    rest: Rest | None = None,
) -> tf.data.Dataset:
    """One epoch in this process: of `share` = (index, count), the splits index, index + count, ...

    `epoch` None: epoch after epoch, without end. `threads`: batches prepared side by side; None: one for each core.
    `rest`: only what is left of the epoch.
    """
    cut, threads = Cut.smallest(pipeline), threads or os.cpu_count() or 1
    ordered = len(_passes(pipeline, epoch)) > 1
    return local_part(pipeline, remote_part(pipeline, epoch, cut, share, threads, rest), cut, threads, ordered)


def one_by_one(pipeline: Declaration, epoch: int, ids: np.ndarray, threads: int) -> tf.data.Dataset:
    """The examples `ids` (int64 [n]) of an epoch, each read and prepared by itself; those that cannot be are left
    out."""
    prepare = preparation(pipeline, epoch)

    def one(split: tf.Tensor, position: tf.Tensor, record: Any) -> dict:
        alone = tf.nest.map_structure(lambda part: part[tf.newaxis], record)
        return prepare(example_id(split, position)[tf.newaxis], alone)

    read = pipeline.source.read_at(ids).map(_as_written(one), num_parallel_calls=threads, deterministic=True)
    return without_autotune(read.ignore_errors().rebatch(pipeline.batch_size).prefetch(pipeline.prefetch))


def preparation(pipeline: Declaration, epoch: int) -> Callable[[tf.Tensor, Any], dict]:
    """(ids int64 [n], records [n] as the source reads them) -> what the whole pipeline makes of them in this epoch."""

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
    """What the data group runs: read, batch, and the stages before the cut. `epoch` None: endless. `rest`: only what
    is left of the epoch, in the same order."""
    cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
    pairs = _pairs(pipeline, epoch, share, rest)
    if _in_blocks(pipeline) and (rest is None or not rest.seen.size):
        dataset, parse = _block_batches(pipeline, pairs), _parsed
    else:
        dataset = _record_batches(pipeline, pairs, epoch, rest)
        parse = functools.partial(_parse, pipeline.source)

    def prepare(*batch: Any) -> dict:
        return _run_stages(pipeline, parse(*batch), 0, cut.position)

    # One batch is prepared by one thread, batches side by side: a stage never waits for another thread's share.
    # Over several passes they stay in order, or batches of the next would come before the last ones of this.
    ordered = len(_passes(pipeline, epoch)) > 1
    dataset = dataset.map(_as_written(prepare), num_parallel_calls=threads, deterministic=ordered)
    if skips(pipeline):
        if cut.spec(pipeline).dtype == "encoded":
            raise UsageError(
                f"bad records are to be skipped, and the cut at {cut.position} leaves decoding to the trainer: move it "
                "behind what decodes"
            )
        dataset = dataset.ignore_errors()  # a batch with a bad record; the others in it are read by themselves later
    return dataset.prefetch(pipeline.prefetch)


def skips(pipeline: Declaration) -> bool:
    """Whether records that cannot be read are left out."""
    return getattr(pipeline.source, "on_bad_record", "fail") == "skip"


def local_part(
    pipeline: Declaration,
    dataset: tf.data.Dataset,
    cut: Cut | None = None,
    threads: int = 2,
    ordered: bool = False,
) -> tf.data.Dataset:
    """What the trainer runs: the stages behind the cut, and `prefetch` batches ahead (not many: what one rank holds
    ready the others cannot get). `ordered`: batches do not overtake each other."""
    cut = (cut or Cut.smallest(pipeline)).checked(pipeline)
    if cut.position < len(pipeline.placed()):
        dataset = dataset.map(
            _as_written(lambda element: _run_stages(pipeline, element, cut.position, None)),
            num_parallel_calls=threads,
            deterministic=ordered,
        )
    return without_autotune(dataset.prefetch(pipeline.prefetch))


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """For data sets that end while the process goes on. Ending an iterator whose autotuner sleeps can lose the wake-up
    and last as long as that sleep, up to 60 s (seen on TF 2.15.1: `Model::OptimizeLoop` under `~IteratorResource`);
    in a training that stalls every other rank."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _pairs(
    pipeline: Declaration, epoch: int | None, share: tuple[int, int], rest: Rest | None = None
) -> tf.data.Dataset:
    """The stream of (epoch, split), both int64 []: of one pass over the splits after another."""
    index, count = share
    every = pipeline.source.split_count()
    splits = every if rest is None else rest.split_count
    if not 0 <= index < count:
        raise UsageError(f"share {index} of {count} does not exist")
    if count > splits and rest is None:
        raise UsageError(
            f"{pipeline.source.name} has {splits} splits, which cannot be shared among {count} ranks; "
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
    """Batches of ((epoch, split), (position, record)); no function call per example, but for those of a rest."""
    kind = "skip-" if skips(pipeline) else ""  # what is kept then may lack records
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
    """A shuffle buffer takes its examples one by one, and so do files that are read or kept side by side."""
    if pipeline.shuffle or pipeline.cache or pipeline.interleave > 1:
        return False
    return isinstance(pipeline.source, BlockSource) and pipeline.source.reads_blocks()


def _block_batches(pipeline: Declaration, pairs: tf.data.Dataset) -> tf.data.Dataset:
    """The same batches, as (ids, epochs, features), from blocks of neighbours: no iterator turns for each example."""
    source = pipeline.source
    assert isinstance(source, BlockSource)
    blocks = pairs.interleave(
        lambda epoch, split: source.read_blocks(split, epoch), cycle_length=1, num_parallel_calls=None
    )
    return blocks.rebatch(pipeline.batch_size)


def _parsed(ids: tf.Tensor, epochs: tf.Tensor, features: dict[str, tf.Tensor]) -> dict:
    return {**features, ID: ids, EPOCH: epochs}


def _as_written(function: Callable[..., dict]) -> Callable[..., dict]:
    """Kept from AutoGraph, which would turn the errors of stages and sources into its own. A stage that needs Python's
    `if` or `while` on tensors can put them into a tf.function."""
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
    """What runs for the stages from position `begin` up to `end`, in order."""
    spec = pipeline.input if begin == 0 else pipeline.placed()[begin - 1].output
    return (fuse if pipeline.fuse else unfused)(pipeline.placed()[begin:end], spec)


def _drawn(pipeline: Declaration, element: dict, placed: PlacedStage, spec: ImageSpec) -> dict[str, tf.Tensor]:
    stage = placed.stage
    if not stage.random:
        return {}
    keys = randomness.keys(pipeline.seed, stage.name, placed.declared, element[EPOCH], element[ID])
    return stage.parameters(keys, spec)


def _shaped(images: tf.Tensor, placed: PlacedStage) -> tf.Tensor:
    """Tells the graph what the stage promised, so that a stage that lies is found when the graph is built."""
    if placed.output.ragged:
        return images
    promised = placed.output.tensor
    if images.dtype != promised.dtype or not images.shape.is_compatible_with(promised.shape):
        raise UsageError(
            f"stage {placed.stage.name} promised {promised.dtype.name} {promised.shape} "
            f"and made {images.dtype.name} {images.shape}"
        )
    images.set_shape(promised.shape)
    return images


def _fold(seed: int, epoch: int) -> int:
    """One 31-bit seed of two numbers (Knuth's multiplicative hash)."""
    return (seed * 2654435761 + epoch * 40503 + 1) & 0x7FFFFFFF
