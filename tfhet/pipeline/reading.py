"""Reading: the batches of records that a pipeline's stages work on.

Reading starts from a stream of (epoch, split) pairs, which tf.data service deals out to workers under DYNAMIC sharding.
The epoch travels with the pair, so that one graph serves one epoch or any number of them, and so that the seeds (run
seed, stage and position, epoch, id) never depend on the process that does the work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.pipeline import stream
from tfhet.pipeline.order import SPLITS
from tfhet.pipeline.pipeline import EPOCH, ID, Pipeline
from tfhet.pipeline.settings import passes
from tfhet.source import BlockSource, IdSet, SeekingSource, Source, example_id
from tfhet.stages import randomness


@dataclass(frozen=True, eq=False)
class Rest:
    """The examples of an epoch that are still to be read after some have been seen."""

    splits: np.ndarray
    """bool [splits of the source]: whether a split is still to be read."""
    seen: IdSet
    """Ids in those splits that are not read again."""


def batches(
    pipeline: Pipeline, epoch: int | None, share: tuple[int, int], rest: Rest | None
) -> tuple[tf.data.Dataset, Callable[..., dict]]:
    """Returns the batches as they are read, and a function that turns one of them into features, ids and epochs. The
    arguments are as in `lowering.one_epoch`. Raises UsageError for a share that has no split."""
    pairs, source = _pairs(pipeline, epoch, share, rest), pipeline.source
    # Blocks spare an iterator step for each example, which these need.
    is_begun = rest is not None and bool(rest.seen.table.size)
    singly = pipeline.shuffle or pipeline.cache or pipeline.interleave > 1 or is_begun
    if not singly and isinstance(source, BlockSource) and source.reads_blocks():
        blocks = pairs.interleave(lambda epoch, split: source.read_blocks(split, epoch), cycle_length=1)
        return blocks.rebatch(pipeline.batch_size), _parsed
    return _record_batches(pipeline, pairs, epoch, rest), functools.partial(_parse, source)


def skips(pipeline: Pipeline) -> bool:
    """Whether records that cannot be read are omitted."""
    return getattr(pipeline.source, "on_bad_record", "fail") == "skip"


def _pairs(pipeline: Pipeline, epoch: int | None, share: tuple[int, int], rest: Rest | None) -> tf.data.Dataset:
    """Returns the stream of (epoch, split), both int64 []: one pass over the splits after another."""
    (index, count), every = share, pipeline.source.split_count()
    splits = every if rest is None else int(rest.splits.sum())
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
            order = _split_order(every, pipeline.seed, at_epoch)
        if rest is not None:
            order = tf.boolean_mask(order, tf.gather(tf.constant(rest.splits), order))
        return at_epoch, order[index + place * count]

    numbers = passes(pipeline.repeat, epoch)
    return tf.data.Dataset.range(len(numbers) * mine).map(lambda i: pair(numbers.start + i // mine, i % mine))


def _split_order(splits: int, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """Returns the order of the splits in an epoch, int64 [splits], the same as `EpochOrder` has it."""
    salt = tf.constant(randomness.salt(seed, SPLITS, 0), tf.uint64)
    state = randomness.absorb(salt, randomness.as_word(epoch))
    words = randomness.absorb(state, tf.constant(np.arange(splits, dtype=np.uint64)))
    signed = tf.bitcast(tf.bitwise.bitwise_xor(words, tf.constant(1 << 63, tf.uint64)), tf.int64)
    return tf.cast(tf.argsort(signed, stable=True), tf.int64)


def _record_batches(
    pipeline: Pipeline, pairs: tf.data.Dataset, epoch: int | None, rest: Rest | None
) -> tf.data.Dataset:
    """Returns batches of ((epoch, split), (position, record)); no function call per example, except for a rest."""
    kind = "skip-" if skips(pipeline) else ""  # a cache that was written so may lack records
    fingerprint = kind + pipeline.source.fingerprint() if pipeline.cache else ""
    seen = IdSet.of() if rest is None else rest.seen
    source, begins = pipeline.source, None
    if rest is not None and isinstance(source, SeekingSource) and not pipeline.cache and not skips(pipeline):
        first, seen = seen.beyond_gaps(len(rest.splits))
        begins = tf.constant(first), tf.constant(source.starts(first))

    def read(at_epoch: tf.Tensor, split: tf.Tensor) -> tf.data.Dataset:
        constant = tf.data.Dataset.from_tensors((at_epoch, split)).repeat()
        if begins is not None and isinstance(source, SeekingSource):
            records = source.read_from(split, *(tf.gather(each, split) for each in begins))
        else:
            records = source.read(split)
        if pipeline.cache:
            records = stream.cached(records, pipeline.cache, fingerprint, split)
        if skips(pipeline):
            records = records.ignore_errors()
        return tf.data.Dataset.zip((constant, records))

    dataset = stream.side_by_side(pairs, read, pipeline.interleave)
    if seen.table.size:
        dataset = dataset.filter(_unseen(seen))
    if pipeline.shuffle:
        seed = (pipeline.seed * 2654435761 + (epoch or 0) * 40503 + 1) & 0x7FFFFFFF  # Knuth's multiplicative hash
        dataset = dataset.shuffle(pipeline.shuffle, seed=seed, reshuffle_each_iteration=False)
    return dataset.batch(pipeline.batch_size)


def _unseen(seen: IdSet) -> Callable[..., tf.Tensor]:
    rows, table = tf.constant(seen.table[:, 0]), tf.constant(seen.table)

    def unseen(pair: tuple[tf.Tensor, tf.Tensor], record: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        number = example_id(pair[1], record[0])
        place = tf.minimum(tf.searchsorted(rows, number[None] // 512, out_type=tf.int64)[0], len(seen.table) - 1)
        word = tf.gather_nd(table, tf.stack([place, 1 + number // 64 % 8]))
        return (tf.gather(rows, place) != number // 512) | (tf.bitwise.right_shift(word, number % 64) % 2 == 0)

    return unseen


def _parse(source: Source, pair: tuple[tf.Tensor, tf.Tensor], record: tuple[tf.Tensor, tf.Tensor]) -> dict:
    (epochs, splits), (positions, records) = pair, record
    return {**source.parse(records), ID: example_id(splits, positions), EPOCH: epochs}


def _parsed(ids: tf.Tensor, epochs: tf.Tensor, features: dict[str, tf.Tensor]) -> dict:
    return {**features, ID: ids, EPOCH: epochs}
