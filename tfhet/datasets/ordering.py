"""Which data sets are indexed, and in which order their elements are.

`from_tensor_slices`, `range` and `from_tensors` are indexed; `map`, `zip`, `take`, `skip`, `shard`, `enumerate`,
`concatenate`, `repeat`, one `batch` or `window`, and a `shuffle` with a fixed order keep a data set indexed. The user's
functions do not run here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.datasets import tf_internals
from tfhet.datasets.indexed import MAX_INDICES, PADDING, Indexed, NotIndexed, check_size, counted, grouped
from tfhet.datasets.tf_internals import Components

TRANSPARENT = ("_PrefetchDataset", "_OptionsDataset", "CacheDataset", "_CacheDataset", "_AssertCardinalityDataset")
MAPS = ("_MapDataset", "_ParallelMapDataset")
BATCHES = ("_BatchDataset", "_ParallelBatchDataset")


def indexed(data: tf.data.Dataset, ranks: int = 1) -> Indexed:
    """Returns the order and the elements of `data`. ranks: number of processes that made it. Raises NotIndexed, with
    the reason."""
    kind, inputs = type(data).__name__, data._inputs()
    if (split := getattr(data, "_tfhet_branch", None)) is not None:
        if not split.is_whole:
            raise NotIndexed("the order after tfhet.split of a shuffled data set is not known in advance")
        return split.order
    if kind in TRANSPARENT:
        return indexed(inputs[0], ranks)
    if (progression := tf_internals.progression(data)) is not None:
        return _progression(*progression)
    if kind == "_ShuffleDataset" and not data._reshuffle_each_iteration and tf_internals.is_unseeded(data):
        return _drawn_once(data, indexed(inputs[0], ranks), ranks)
    if not inputs:
        return _source(data)
    rule = _RULES.get(kind)
    if rule is None:
        raise NotIndexed(f"the order after {tf_internals.name_of(data)} is not known in advance")
    return rule(data, [indexed(each, ranks) for each in inputs])


def _source(data: tf.data.Dataset) -> Indexed:
    parts = tf_internals.slices(data)
    if parts is None:
        raise NotIndexed(f"the number of elements of {tf_internals.name_of(data)} is not known in advance")
    count, element = parts
    return Indexed(counted(count), lambda row: element(row[0]), keys=(lambda: tf_internals.keys(data._tensors, count),))


def _progression(start: int, step: int, count: int, dtype: tf.DType) -> Indexed:
    def example(row: tf.Tensor) -> Components:
        return [tf.cast(start + step * row[0], dtype)]

    is_counter = count > MAX_INDICES
    rows = counted(0 if is_counter else count)
    return Indexed(rows, example, is_endless=is_counter, is_counter=is_counter)


def _drawn_once(data: Any, source: Indexed, ranks: int) -> Indexed:
    """An order that TensorFlow drew for this data set, in this process: only its elements tell it."""
    if ranks > 1:
        raise NotIndexed("a shuffle without a seed draws another order in each rank: set its seed")
    if source.is_endless or source.has_functions or source.group is not None:
        raise NotIndexed("a shuffle without a seed draws another order in each process: set its seed")
    parts = tf_internals.values(data, len(source.rows))
    if parts is None:
        raise NotIndexed("a shuffle without a seed, of large elements, draws another order: set its seed")
    count = len(parts[0])
    return Indexed(
        counted(count), lambda row: [part[row[0]] for part in parts], keys=(lambda: tf_internals.keys(parts, count),)
    )


def _map(data: Any, inputs: list[Indexed]) -> Indexed:
    (source,) = inputs
    if source.is_window:
        raise NotIndexed("a map of windows")
    function = tf_internals.function_of(data)
    is_parallel = source.is_parallel or type(data).__name__ == "_ParallelMapDataset"
    mapped = replace(source, is_parallel=is_parallel, has_functions=True)
    if source.group is not None:
        return replace(mapped, after=(*source.after, function))
    return replace(mapped, example=lambda row: function(source.example(row)))


def _batch(data: Any, inputs: list[Indexed]) -> Indexed:
    source = _ungrouped(inputs[0])
    size, drop = int(data._batch_size), bool(tf.get_static_value(data._drop_remainder))
    count = len(source.rows) // size * size if drop else len(source.rows)
    rows = grouped(source.rows[:count, 0], size)
    return replace(source, rows=rows, group=lambda examples: examples.batch(size, drop_remainder=drop))


def _window(data: Any, inputs: list[Indexed]) -> Indexed:
    source = _ungrouped(inputs[0])
    size, shift, stride = int(data._size), int(data._shift), int(data._stride)
    drop, total = bool(tf.get_static_value(data._drop_remainder)), len(source.rows)
    begins = np.arange(0, max(0, total - (size - 1) * stride) if drop else total, shift)
    check_size(len(begins) * size * source.rows.shape[2])
    places = begins[:, None] + stride * np.arange(size)
    rows = source.rows[np.minimum(places, max(0, total - 1)), 0]
    rows = np.where((places < total)[:, :, None], rows, PADDING)
    return replace(source, rows=rows, group=lambda examples: examples.window(size), is_window=True)


def _ungrouped(source: Indexed) -> Indexed:
    if source.group is not None or source.is_endless:
        raise NotIndexed("batches of " + ("endless data" if source.is_endless else "batches"))
    return source


def _take(data: Any, inputs: list[Indexed]) -> Indexed:
    (source,), count = inputs, int(data._count)
    if count < 0:
        return source
    return replace(source, rows=source.first(count), is_endless=False, is_counter=False)


def _skip(data: Any, inputs: list[Indexed]) -> Indexed:
    (source,), count = inputs, int(data._count)
    _refuse_counter(source, "skip")
    if source.is_endless:
        return replace(source, rows=np.roll(source.rows, -count, axis=0))
    return replace(source, rows=source.rows[count:] if count >= 0 else source.rows[:0])


def _shard(data: Any, inputs: list[Indexed]) -> Indexed:
    (source,), count, index = inputs, int(data._num_shards), int(data._index)
    _refuse_counter(source, "shard")
    rows = source.first(len(source.rows) * count) if source.is_endless else source.rows
    return replace(source, rows=rows[index::count])


def _repeat(data: Any, inputs: list[Indexed]) -> Indexed:
    (source,), count = inputs, int(data._count)
    if source.is_endless or (count < 0 and not len(source.rows)):
        return source
    if count < 0:
        return replace(source, is_endless=True)
    check_size(source.rows.size * count)
    return replace(source, rows=np.concatenate([source.rows] * count) if count else source.rows[:0])


def _shuffle(data: Any, inputs: list[Indexed]) -> Indexed:
    (source,) = inputs
    if data._reshuffle_each_iteration:
        raise NotIndexed("a shuffle draws another order in each pass: set reshuffle_each_iteration=False and a seed")
    if source.is_endless:
        raise NotIndexed("a shuffle of endless data")
    return replace(source, rows=source.rows[tf_internals.shuffled(data, len(source.rows))])


def _zip(data: Any, inputs: list[Indexed]) -> Indexed:
    finite = [len(each.rows) for each in inputs if not each.is_endless]
    if not finite:
        for each in inputs:
            _refuse_counter(each, "zip of endless data and")
    count = min(finite) if finite else math.lcm(*(len(each.rows) for each in inputs))
    parts = [each.first(count) for each in inputs]
    if any(each.is_window for each in inputs) or len({part.shape[1] for part in parts}) > 1:
        raise NotIndexed("zip of batches and of other elements")
    rows = np.concatenate(parts, axis=2)
    if any(((part[:, :, 0] == PADDING) != (rows[:, :, 0] == PADDING)).any() for part in parts) or (
        len({each.group is None for each in inputs}) > 1
    ):
        raise NotIndexed("zip of batches of different sizes")
    begins = np.cumsum([0, *(part.shape[2] for part in parts)])
    counts = [tf_internals.component_count(each) for each in data._inputs()]

    def example(row: tf.Tensor) -> Components:
        places = zip(inputs, begins, begins[1:], strict=False)
        return [part for one, begin, end in places for part in one.example(row[begin:end])]

    def after(element: Components) -> Components:
        parts = iter(element)
        result: list[tf.Tensor] = []
        for one, components in zip(inputs, counts, strict=True):
            mine: Components = list(itertools.islice(parts, components))
            for function in one.after:
                mine = function(mine)
            result += mine
        return result

    return Indexed(
        rows,
        example,
        inputs[0].group,
        (after,) if any(one.after for one in inputs) else (),
        is_endless=not finite,
        is_parallel=any(one.is_parallel for one in inputs),
        has_functions=any(one.has_functions for one in inputs),
        keys=tuple(key for one in inputs for key in one.keys),
    )


def _concatenate(data: Any, inputs: list[Indexed]) -> Indexed:
    first, second = (_ungrouped(each) for each in inputs)
    widths = first.rows.shape[2], second.rows.shape[2]
    of_first = np.pad(first.rows, ((0, 0), (0, 0), (1, widths[1])))
    of_second = np.pad(second.rows, ((0, 0), (0, 0), (1 + widths[0], 0)))
    of_second[:, :, 0] = 1

    def example(row: tf.Tensor) -> Components:
        begin = 1 + widths[0]
        return tf.cond(
            row[0] == 0, lambda: list(first.example(row[1:begin])), lambda: list(second.example(row[begin:]))
        )

    return Indexed(
        np.concatenate([of_first, of_second]),
        example,
        is_parallel=first.is_parallel or second.is_parallel,
        has_functions=first.has_functions or second.has_functions,
        keys=(None, *first.keys, *second.keys),
    )


_RULES: dict[str, Callable[[Any, list[Indexed]], Indexed]] = {
    **dict.fromkeys(MAPS, _map),
    **dict.fromkeys(BATCHES, _batch),
    "_WindowDataset": _window,
    "_TakeDataset": _take,
    "_SkipDataset": _skip,
    "_ShardDataset": _shard,
    "_RepeatDataset": _repeat,
    "_ShuffleDataset": _shuffle,
    "_ZipDataset": _zip,
    "_ConcatenateDataset": _concatenate,
}


def _refuse_counter(source: Indexed, name: str) -> None:
    if source.is_counter:
        raise NotIndexed(f"{name} a counter without end")
