"""Validation data: every pass delivers each example once, and every rank gets the same number of batches in every pass.

Each rank reads a share of its own. The ranks know how many examples each share has before the first pass, and so how
many batches every rank gets: as many as the largest share fills. A rank with fewer examples splits its last batches.
Workers fill the batches of a share in any order, and each leaves a partial one, so the rank groups the examples again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.datasets import share_of, with_inputs
from tfhet.errors import NotReady, UsageError
from tfhet.messages import inherited, rank
from tfhet.pipeline import Pipeline, Rest
from tfhet.source import IdSet, example_id, split_of
from tfhet.strategies import JobContext

GATHER_S = 3600.0
"""Seconds that a rank waits until the other ranks have counted the examples of their shares."""
_POLL_S = 1.0
_COUNTED = 1024
"""Examples that are counted as one element."""
_BATCHES = ("_BatchDataset", "_ParallelBatchDataset", "_PaddedBatchDataset")
_ONE_TO_ONE = (
    "_MapDataset", "_ParallelMapDataset", "_PrefetchDataset", "_OptionsDataset", "_ShuffleDataset", "_CacheDataset",
    "CacheDataset", "_AssertCardinalityDataset",
)  # fmt: skip
"""Transformations that keep the number of elements."""
_BY_INDEX = (
    *_ONE_TO_ONE[:-1], *_BATCHES, "_TensorSliceDataset", "_RangeDataset", "_TensorDataset", "_ZipDataset",
    "_TakeDataset", "_SkipDataset",
)  # fmt: skip
"""Parts of data sets whose shares differ by at most one element."""
log = logging.getLogger("tfhet")

Read = Callable[[tf.data.Dataset, str], tf.data.Dataset]
"""Reads from the data plane a data set that this rank alone reads, under a name."""


def equal_passes(data: tf.data.Dataset, job: JobContext, ordinal: int, read: Read) -> tf.data.Dataset:
    """Returns this rank's share of `data`. Raises UsageError for data that cannot be shared so."""
    if any(type(each).__name__ == "_GroupByWindowDataset" for each in with_inputs(data)):
        raise UsageError(
            "the validation data have group_by_window or bucket_by_sequence_length, which makes other batches on each "
            "worker and rank, so they cannot be divided into equal passes: use batch or padded_batch, or let every rank"
            " read all of them, without tfhet.distribute"
        )
    form = Form.of(data)
    counts = _counts(form, job, ordinal, read)
    return form.passes(read(form.share(data, job.rank, job.size), "validation"), counts, job.rank)


@dataclass(frozen=True)
class Form:
    """The batches of a data set."""

    units: tf.data.Dataset
    """An element for each example, or for each element if these cannot be divided; prepared as little as possible."""
    batch_size: int = 0
    """Examples in a whole batch; 0: elements cannot be divided."""
    padding: Any = None
    """Padding values of batches whose examples differ in shape; None: they do not, or are not padded."""

    @classmethod
    def of(cls, data: tf.data.Dataset) -> Form:
        elements = units = _without(data, _ONE_TO_ONE)
        cuts: list[tuple[str, int]] = []  # of batches
        while (kind := type(units).__name__) in ("_TakeDataset", "_SkipDataset", "_RepeatDataset"):
            count = tf.get_static_value(units._count)
            # Each repetition may have a partial batch, so it is not known how many examples a cut of them has.
            if count is None or count < 0 or (kind == "_RepeatDataset" and cuts):
                return cls(elements)
            cuts.append((kind, int(count)))
            units = _without(units._inputs()[0], _ONE_TO_ONE)
        if type(units).__name__ not in _BATCHES:
            return cls(elements)
        batch, size, padding = units, tf.get_static_value(units._batch_size), getattr(units, "_padding_values", None)
        is_divided = size is not None and all(one.shape.rank and one.shape[0] is None for one in _components(data))
        if padding is not None and _varies(data):
            try:
                tf.nest.assert_same_structure(padding, data.element_spec)
            except (TypeError, ValueError):
                is_divided = False  # what a map after padded_batch has to be padded with is unknown
        if not is_divided or tf.get_static_value(batch._drop_remainder):
            return cls(elements)
        units = _without(batch._inputs()[0], _ONE_TO_ONE)
        for kind, count in reversed(cuts):
            if kind == "_RepeatDataset":
                units = units.repeat(count)
            else:
                units = units.take(count * size) if kind == "_TakeDataset" else units.skip(count * size)
        return cls(units, int(size), padding)

    def share(self, data: tf.data.Dataset, at: int, ranks: int) -> tf.data.Dataset:
        """Returns the share of one rank of `data`, or of `units`."""
        if ranks == 1:
            return data
        neighbours, part = 1, self.units  # of inner batches
        while len(inputs := part._inputs()) == 1:
            neighbours *= int(part._batch_size) if type(part).__name__ in _BATCHES else 1
            (part,) = inputs
        return share_of(data, ranks, at, neighbours=neighbours)

    def passes(self, data: tf.data.Dataset, counts: Sequence[int], at: int) -> tf.data.Dataset:
        """Groups the examples of one share again, and checks each pass. counts: units of each share."""
        sizes = self.sizes(counts, at)
        why = (
            f"tfhet: a pass of the validation data does not consist of {counts[at]} "
            f"{'examples' if self.batch_size else 'elements'}, as it did when they were counted. Did files change, "
            "does a filter draw random numbers, or was a data host lost?"
        )
        if self.batch_size:
            data = self._grouped(data, sizes)
            why += " A map after batch that changes the number of examples belongs after tfhet.distribute."
        data = _checked(data, sizes if self.batch_size else None, len(sizes), why)
        return data.prefetch(2).apply(tf.data.experimental.assert_cardinality(len(sizes)))

    def sizes(self, counts: Sequence[int], at: int) -> list[int]:
        """Returns the number of units in each batch of a share. Raises UsageError if the shares cannot have equally
        many batches."""
        size, ranks, shares = self.batch_size or 1, len(counts), ", ".join(map(str, counts))
        most = -(-max(counts) // size)
        if min(counts) < max(most, 1):
            what = f"examples in batches of {self.batch_size}" if self.batch_size else "elements that cannot be divided"
            how = "use larger batches" if self.batch_size else "batch them last, without drop_remainder"
            raise UsageError(
                f"the validation data cannot be divided into equally many batches for {ranks} ranks, whose shares have "
                f"{shares} {what}: {how} before tfhet.distribute, or let every rank read all of them, without it"
            )
        left, sizes = counts[at], []
        for later in range(most - 1, -1, -1):  # each later batch needs an example
            sizes.append(min(size, left - later))
            left -= sizes[-1]
        return sizes

    def _grouped(self, data: tf.data.Dataset, sizes: Sequence[int]) -> tf.data.Dataset:
        room = tf.constant([*sizes[:-1], sizes[-1] + 1], tf.int64)  # so that an example too many is noticed
        if not _varies(data):
            return data.rebatch(room)
        ends = tf.constant(np.cumsum(sizes)[:-1], tf.int64)

        def number(index: tf.Tensor, example: Any) -> tf.Tensor:
            return tf.searchsorted(ends, index[tf.newaxis], side="right", out_type=tf.int64)[0]

        def batch(number: tf.Tensor, window: tf.data.Dataset) -> tf.data.Dataset:
            examples, most = window.map(lambda index, example: example), self.batch_size + 1
            if self.padding is None:
                return examples.batch(most)
            return examples.padded_batch(most, padding_values=self.padding)

        examples = data.unbatch().enumerate()
        return examples.group_by_window(number, batch, window_size_func=lambda number: room[number])


def _without(data: tf.data.Dataset, kinds: Sequence[str]) -> tf.data.Dataset:
    """Returns what the last operations of these kinds are applied to."""
    while type(data).__name__ in kinds:
        (data,) = data._inputs()
    return data


def _components(data: tf.data.Dataset) -> list[Any]:
    return tf.nest.flatten(data.element_spec)


def _varies(data: tf.data.Dataset) -> bool:
    """Whether the examples of dense batches may differ in shape."""
    dense = [one for one in _components(data) if isinstance(one, tf.TensorSpec)]
    return any(not one.shape[1:].is_fully_defined() for one in dense)


def _checked(data: tf.data.Dataset, sizes: Sequence[int] | None, count: int, why: str) -> tf.data.Dataset:
    """Lets a pass fail that has not `count` elements, of these numbers of examples if they are known."""
    spec, expected = data.element_spec, None if sizes is None else tf.constant(sizes, tf.int64)

    def check(index: tf.Tensor, element: Any) -> Any:
        is_right = index < count
        if expected is not None:
            first = tf.nest.flatten(element)[0]
            rows = first.nrows() if isinstance(first, tf.RaggedTensor) else tf.shape(first, tf.int64)[0]
            is_right &= rows == expected[tf.minimum(index, count - 1)]
        with tf.control_dependencies([tf.debugging.Assert(is_right, [why])]):
            return tf.nest.map_structure(tf.identity, element)

    def fail(_: tf.Tensor) -> Any:
        with tf.control_dependencies([tf.debugging.Assert(tf.constant(False), [why])]):
            return tf.experimental.Optional.empty(spec).get_value()

    def first_of_two(index: tf.data.Dataset, element: Any) -> Any:
        two = tf.data.Dataset.zip((index, element))
        is_last = two.reduce(tf.constant(0, tf.int64), lambda number, _: number + 1) == 1
        at, found = two.take(1).get_single_element()
        # An element too many is noticed at the last one that is expected: the reader may not ask for another.
        return tf.where(is_last | (at < count - 1), at, count), found

    # Keras asks for no element after the last: `take` keeps it from the failure.
    numbered = data.enumerate()
    if expected is None:
        numbered = numbered.window(2, shift=1).map(tf.autograph.experimental.do_not_convert(first_of_two))
    checked = numbered.map(tf.autograph.experimental.do_not_convert(check))
    missing = tf.data.Dataset.range(count).map(tf.autograph.experimental.do_not_convert(fail))
    return checked.concatenate(missing).take(count)


# The number of examples


def _counts(form: Form, job: JobContext, ordinal: int, read: Read) -> list[int]:
    """Returns the number of units of each rank's share, from the graph or by reading them once."""
    whole, ranks = int(form.units.cardinality()), range(job.size)
    if whole >= 0 and all(type(each).__name__ in _BY_INDEX for each in with_inputs(form.units)):
        return [-(-(whole - at) // job.size) for at in ranks]
    begin_s = SYSTEM.monotonic()
    if job.size == 1 or not inherited(environment()).is_open:  # without a launcher every rank counts all shares
        counts = [_count(form.share(form.units, at, job.size), f"count-{at}", read) for at in ranks]
    else:
        mine = _count(form.share(form.units, job.rank, job.size), "count", read)
        counts = gather(f"validation-{ordinal}", mine, job.size)
    log.info("counted %d validation examples in %.1f s", sum(counts), SYSTEM.monotonic() - begin_s)
    return counts


def _count(examples: tf.data.Dataset, name: str, read: Read) -> int:
    channel, count, said_s = inherited(environment()), 0, SYSTEM.monotonic()
    for ones in read(examples.map(lambda *example: tf.constant(1, tf.int8)).batch(_COUNTED), name):
        count += int(tf.size(ones))
        if SYSTEM.monotonic() > said_s + _POLL_S:  # the launcher would take silence for a script that hangs
            said_s = SYSTEM.monotonic()
            channel.send(rank.Progress())
    return count


def gather(key: str, value: int, ranks: int, limit_s: float = GATHER_S) -> list[int]:
    """Returns the values of all ranks, which call this with the same key. Raises NotReady after `limit_s` seconds."""
    channel, end_s = inherited(environment()), SYSTEM.monotonic() + limit_s
    channel.send(rank.Contribution(key, value), limit_s=_POLL_S)
    while SYSTEM.monotonic() < end_s and channel.is_open:
        found = channel.receive(_POLL_S, rank.Gathered)
        if found is not None and found.key == key:
            return list(found.values)
        channel.send(rank.Progress())
    raise NotReady(
        f"not all of {ranks} ranks counted their validation data within {limit_s:g} s: do all ranks call "
        "tfhet.distribute(..., training=False), in the same order?"
    )


# Declared pipelines


@dataclass(frozen=True)
class PipelineShares:
    """The shares of the examples of a declared pipeline, by their ids."""

    ids: np.ndarray
    """int64 [n]: the ids of all examples."""
    splits: int
    ranks: int

    def rest(self, at: int) -> Rest:
        """Returns the examples of one share."""
        is_own = np.arange(len(self.ids)) % self.ranks == at
        has_own = np.isin(np.arange(self.splits), split_of(self.ids[is_own]))
        return Rest(has_own, IdSet.of(self.ids[~is_own]))

    def passes(self, data: tf.data.Dataset, batch_size: int, at: int) -> tf.data.Dataset:
        """Groups the examples of one share again, and checks each pass."""
        counts = [len(self.ids[each :: self.ranks]) for each in range(self.ranks)]
        return Form(data, batch_size).passes(data, counts, at)


def shares_of(pipeline: Pipeline, ranks: int) -> PipelineShares:
    """Raises UsageError for a source that cannot find its number of examples."""
    source = pipeline.source
    if source.split_sizes() is None:
        source.check()
    if (sizes := source.split_sizes()) is None:
        raise UsageError(
            f"the source {source.name} does not know its number of examples: let every rank read all "
            "of it, without tfhet.distribute"
        )
    ids = np.concatenate([example_id(split, np.arange(size, dtype=np.int64)) for split, size in enumerate(sizes)])
    return PipelineShares(ids, len(sizes), ranks)
