"""Shares of a plain data set: among the workers of a data service, and among ranks.

A worker gets its part of the source's elements, so `take`, `zip` and other operations that depend on the place of an
element would mean something else there. A source of blocks of indices replaces them, which workers can share.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.datasets import tf_internals
from tfhet.datasets.graph import DatasetGraph, NotEditable, Route
from tfhet.datasets.indexed import Indexed, NotIndexed
from tfhet.datasets.inspect import with_inputs
from tfhet.datasets.ordering import BATCHES, MAPS, TRANSPARENT, indexed
from tfhet.datasets.refusals import ENDLESS, RECIPE, refusal
from tfhet.errors import UsageError

log = logging.getLogger("tfhet")

_POSITIONAL = (
    "_TakeDataset", "_SkipDataset", "_ShardDataset", "_ZipDataset", "_TakeWhileDataset", "_ScanDataset",
    "_UniqueDataset", "_WindowDataset", "_SnapshotDataset", "_LoadDataset", "_SaveDataset",
)  # fmt: skip
"""Operations whose result depends on the place of an element or on the elements before it."""
_KEEPING = (*TRANSPARENT, *MAPS, "_ShuffleDataset", "_RepeatDataset")
"""Operations that keep the number of elements of a pass."""
_FEW = 4
"""Source elements for each rank below which the data sets that are made of them are shared."""


@dataclass(frozen=True)
class _Branch:
    """A chain of operations with one source; several in `concatenate` and `sample_from_datasets`."""

    route: Route
    part: tf.data.Dataset
    """The last positional operation, or the source."""
    order: Indexed | None
    """Of `part`, if it is known."""
    batches: tuple[int, ...]
    """Sizes of the batches (of batches) above `part`, the innermost first."""
    is_positional: bool
    is_whole: bool = False
    """Whether nothing is above `part` in what `split_dataset` returned."""
    keeps_count: bool = False
    """Whether all above `part` in what `split_dataset` returned keeps the number of elements."""

    @property
    def batch(self) -> int:
        """Number of elements of `part` in the largest batch; 1 without batches."""
        return math.prod(self.batches)


def divisible(data: tf.data.Dataset, ranks: int = 1) -> tf.data.Dataset:
    """Returns a data set with the elements of `data` whose source workers can share. ranks: number of processes that
    made it. Raises UsageError for operations that depend on the place of an element, if the order of the elements is
    not known in advance."""
    if getattr(data, "_tfhet_is_divisible", False):
        return data
    graph, new = DatasetGraph(data), []
    for branch in _branches(data, ranks):
        if branch.order is not None:
            new.append((branch, branch.order))
    try:
        _set(graph, new)
    except NotEditable as reason:
        if positional := [branch.part for branch, _ in new if branch.is_positional]:
            raise refusal(positional[0], reason) from None
        log.warning("workers share single elements, and may have more partial batches: %s", reason)
        graph = DatasetGraph(data)
    return _edited(graph)


def check_divisible(data: tf.data.Dataset) -> None:
    """Raises the UsageError of `divisible`, without making a data set."""
    for _ in _branches(data, 1):
        pass


def share_of(
    data: tf.data.Dataset, ranks: int, rank: int, *, for_training: bool = False, neighbours: int = 1
) -> tf.data.Dataset:
    """Returns the examples of one of `ranks` shares: disjoint, together all of `data`, in each pass the same set, for
    any number of workers, also if the ranks have the examples or the files in different orders. Batches are made of the
    share's own examples.

    If the order of the examples is known in advance, the sizes of two shares differ by at most one example. Otherwise
    every rank reads all files and keeps its share of the records of each.
    for_training: the sizes differ by at most one batch or file: at most one batch of a rank is smaller than the others,
    and a rank reads whole files if there are enough.
    neighbours: number of examples that stay together, because a batch makes a sequence of them; a share has every
    `ranks`-th group of data that all ranks have in the same order.
    Raises UsageError if no shares can be made.
    """
    graph, new = DatasetGraph(data), []
    try:
        for branch in _branches(data, ranks, with_repeats=True):
            reader, order = graph.reader(branch.part, branch.route), branch.order
            if order is not None and order.is_counter:
                raise NotIndexed("it counts without end")
            few = ranks if for_training else _FEW * ranks
            is_coarse = order is None or (order.count < few and not order.is_window)
            if reader is not None and (is_coarse or (graph.reads_files(reader) and not for_training)):
                graph.shard_inner(reader, ranks, rank)
                if order is not None and branch.is_positional:
                    new.append((branch, order))
            elif order is not None:
                own = () if order.group is None or order.is_window else (order.rows.shape[1],)
                sizes = (*own, *branch.batches)
                if for_training and (len(sizes) > 1 or (_maps_batches(data) and not _has_texts(branch.part))):
                    neighbours = math.prod(sizes)  # which a map after batch may turn into a sequence
                if neighbours > 1:
                    new.append((branch, order.groups(ranks, rank, neighbours)))
                else:
                    new.append((branch, order.share(ranks, rank, math.prod(sizes) if for_training else 1)))
            else:
                raise NotIndexed("the order of its elements is not known in advance")
        _set(graph, new)
    except (NotIndexed, NotEditable) as reason:
        raise UsageError(f"the data set cannot be shared among {ranks} ranks: {reason}; {RECIPE}") from None
    return _edited(graph)


def split_dataset(
    data: tf.data.Dataset, places: Callable[[int], tuple[Sequence[int], Sequence[int]]]
) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Returns two parts of `data`. places: returns which examples of a number of examples are in each.

    Raises UsageError if the order of the examples is not known in advance."""
    branches = list(_branches(data, 2))
    branch = branches[0]
    if len(branches) > 1 or branch.order is None:
        raise UsageError(
            "the examples of the data set are not known in advance: split its files, or each data set of a concatenate "
            "or sample_from_datasets, before"
        )
    if any(tf_internals.caches_in_file(each) for each in with_inputs(data)):
        raise UsageError("both parts would write the same file of cache(): apply cache() to each part")
    known = branch.order.known_order()
    first, second = (np.sort(known[list(part)]) for part in places(branch.order.count))
    return _part(data, branch, branch.order.picked(first)), _part(data, branch, branch.order.picked(second))


def _part(data: tf.data.Dataset, branch: _Branch, order: Indexed) -> tf.data.Dataset:
    count = tf.data.experimental.assert_cardinality(len(order.rows))
    graph, new = DatasetGraph(data), order.dataset(branch.batch).apply(count)
    try:
        graph.replace(graph.place_of(branch.part), new)
    except NotEditable as reason:
        raise UsageError(f"the data set cannot be split: {reason}") from None
    part = graph.dataset()
    above = list(itertools.takewhile(lambda each: each is not branch.part, _chain(data)))
    keeps = all(type(each).__name__ in _KEEPING for each in above)
    made = replace(branch, part=new, order=order, is_positional=False, is_whole=not above, keeps_count=keeps)
    for each in with_inputs(part):  # options alone are above the data set
        each._tfhet_branch = made
    return part


def _set(graph: DatasetGraph, new: list[tuple[_Branch, Indexed]]) -> None:
    """Makes the parts of some branches of these elements. Raises NotEditable."""
    places = [graph.place_of(branch.part, branch.route) for branch, _ in new]
    if len(set(places)) < len(places):
        raise NotEditable("the data set contains a part twice")
    for place, (branch, order) in zip(places, new, strict=True):
        try:
            graph.replace(place, order.dataset(branch.batch))
        except (tf.errors.OpError, TypeError, ValueError) as error:
            raise NotEditable(f"{tf_internals.name_of(branch.part)} cannot be made from indices: {error}") from None


def _edited(graph: DatasetGraph) -> tf.data.Dataset:
    """The edited data set, without what fails or repeats its part of the data where workers share the data."""
    graph.remove("CacheDataset", "AssertCardinalityDataset")
    graph.make_interleaves_parallel()
    data = graph.dataset()
    for each in with_inputs(data):
        each._tfhet_is_divisible = True
    return data


def _branches(
    data: tf.data.Dataset,
    ranks: int,
    above: tuple[tf.data.Dataset, ...] = (),
    route: Route = (),
    *,
    with_repeats: bool = False,
) -> Iterator[_Branch]:
    """with_repeats: whether a `repeat` belongs to the part whose order is known, if there are that many indices."""
    chain = list(_chain(data))
    end, above = chain[-1], (*above, *chain[:-1])
    if (split := _split(end)) is not None and not any(map(_is_positional, above)):
        yield replace(split, route=route, batches=_batches_above(above) if split.keeps_count else split.batches)
        return
    if getattr(end, "_tfhet_is_divisible", False):
        for each in filter(_is_positional, chain[:-1]):
            raise refusal(each, NotIndexed("the order of a share is not known in advance"))
        yield _Branch(route, end, None, (), False)
        return
    positional = next((each for each in chain if _is_positional(each)), None)
    if positional is not None:
        above = above[: above.index(positional)] if positional is not end else above
        yield _Branch(route, positional, _order_of(positional, ranks), _batches_above(above), True)
        return
    repeat = next((each for each in chain if _is_finite_repeat(each)), None) if with_repeats else None
    if repeat is not None:
        with contextlib.suppress(NotIndexed):
            repeated = indexed(repeat, ranks)
            yield _Branch(route, repeat, repeated, _batches_above(above[: above.index(repeat)]), False)
            return
    order: Indexed | None = None
    try:
        found = indexed(end, ranks)
        order = None if found.is_endless and not found.is_counter else found
    except NotIndexed as reason:
        if not tf_internals.is_divisible(end):
            raise refusal(end, reason) from None
    if order is not None or not end._inputs():
        yield _Branch(route, end, order, _batches_above(above), False)
        return
    for place, part in enumerate(end._inputs()):
        if place or type(end).__name__ != "_DirectedInterleaveDataset":  # its first input chooses
            yield from _branches(part, ranks, above, (*route, (end, place)), with_repeats=with_repeats)


def _order_of(data: tf.data.Dataset, ranks: int) -> Indexed:
    try:
        order = indexed(data, ranks)
    except NotIndexed as reason:
        raise refusal(data, reason) from None
    if order.is_endless:
        raise refusal(data, NotIndexed(ENDLESS))
    return order


def _chain(data: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    """Yields the data set and what it is made of, down to the first with several inputs or none."""
    yield data
    while not _is_whole(data) and len(inputs := data._inputs()) == 1:
        (data,) = inputs
        yield data


def _is_whole(data: Any) -> bool:
    """Whether the data set is taken as it is, whatever it is made of."""
    is_made = _split(data) is not None or getattr(data, "_tfhet_is_divisible", False)
    return is_made or tf_internals.progression(data) is not None


def _is_positional(data: tf.data.Dataset) -> bool:
    return type(data).__name__ in _POSITIONAL and tf_internals.progression(data) is None


def _maps_batches(data: tf.data.Dataset) -> bool:
    """Whether a map follows a batch."""
    maps = (each for each in with_inputs(data) if type(each).__name__ in MAPS)
    return any(type(below).__name__ in BATCHES for each in maps for below in with_inputs(each))


def _has_texts(data: tf.data.Dataset) -> bool:
    """Whether a source has texts, such as paths, which each rank may have listed or shuffled in an order of its own."""
    sources = (each for each in with_inputs(data) if not each._inputs())
    specs = tf.nest.flatten([source.element_spec for source in sources], expand_composites=True)
    return any(getattr(spec, "dtype", None) == tf.string for spec in specs)


def _is_finite_repeat(data: Any) -> bool:
    return type(data).__name__ == "_RepeatDataset" and int(data._count) > 0


def _split(data: Any) -> _Branch | None:
    """The examples of a part that `split_dataset` returned."""
    return getattr(data, "_tfhet_branch", None)


def _batches_above(above: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes of the batches of what `above` gets, the innermost first; none after other operations."""
    sizes: tuple[int, ...] = ()
    for each in reversed(above):
        kind = type(each).__name__
        if kind in (*BATCHES, "_PaddedBatchDataset"):
            sizes = (*sizes, int(each._batch_size))
        elif kind not in _KEEPING:
            break
    return sizes
