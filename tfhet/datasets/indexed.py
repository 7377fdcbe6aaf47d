"""Indexed data sets: their elements are functions of rows of indices, so that the order is known in advance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from tfhet.datasets.tf_internals import Components
from tfhet.source import GAMMA

MAX_INDICES = 2**24
"""Limit of the indices of one data set in memory; 128 MiB."""
PADDING = -1
_ENDLESS = 2**62


class NotIndexed(Exception):
    """The reason why a data set is not indexed, for people."""


@dataclass(frozen=True)
class Indexed:
    """The order of a data set, and how its elements are made."""

    rows: np.ndarray
    """int64 [elements, examples, width]: the indices of each example of an element, filled up with rows of -1; one
    example for each element without a batch. Of an endless data set one period."""
    example: Callable[[tf.Tensor], Components]
    """Makes an example of one row, int64 [width]."""
    group: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None
    """Makes batches or windows of examples; None if the elements are examples."""
    after: tuple[Callable[[Components], Components], ...] = ()
    """Functions of a batch."""
    is_window: bool = False
    is_endless: bool = False
    is_counter: bool = False
    """Whether the rows are 0, 1, 2, ... without end, and `rows` is empty."""
    is_parallel: bool = False
    """Whether the user's functions may run in parallel."""
    has_functions: bool = False
    keys: tuple[Callable[[], np.ndarray] | None, ...] = (None,)
    """For each index a function that returns keys of the source's elements, uint64 [n]; None: the index is the key."""

    def first(self, count: int) -> np.ndarray:
        """Returns the rows of the first `count` elements, or of all if there are fewer."""
        if self.is_counter:
            return counted(count)
        if not self.is_endless:
            return self.rows[:count]
        check_size(count * self.rows[:1].size)
        return self.rows[np.arange(count) % len(self.rows)]

    def examples(self) -> np.ndarray:
        """Returns the rows of all examples in order, int64 [examples, width]."""
        flat = self.rows.reshape(-1, self.rows.shape[2])
        return flat[flat[:, 0] != PADDING]

    @property
    def count(self) -> int:
        """Number of examples, or of windows."""
        return len(self.rows) if self.is_window else len(self.examples())

    def known_order(self) -> np.ndarray:
        """Returns the places of all examples (windows), int64 [n], in an order that depends on their content alone:
        processes may have them in different orders, as after `random.shuffle(files)`."""
        rows = self.rows[:, 0] if self.is_window else self.examples()
        hashes = np.zeros(len(rows), np.uint64)
        for column, key in zip(rows.T, self.keys, strict=True):
            values = column.astype(np.uint64) if key is None else key()[column]
            hashes = (hashes ^ values) * np.uint64(GAMMA)
            hashes ^= hashes >> np.uint64(32)
        return np.argsort(hashes, kind="stable")

    def picked(self, places: Sequence[int] | np.ndarray) -> Indexed:
        """Returns a data set of the examples (windows) at these places, and of batches of these if it has batches."""
        if self.is_window:
            return replace(self, rows=self.rows[np.asarray(places, np.int64)])
        rows = self.examples()[np.asarray(places, np.int64)]
        return replace(self, rows=grouped(rows, self.rows.shape[1]))

    def share(self, count: int, index: int, batch: int) -> Indexed:
        """Returns every `count`-th group of `batch` examples of `known_order`. Windows are not divided."""
        groups = np.arange(self.count) // batch
        return self.picked(np.sort(self.known_order()[groups % count == index]))

    def groups(self, count: int, index: int, size: int) -> Indexed:
        """Returns the groups index, index + count, ... of `size` neighbours."""
        return self.picked(np.flatnonzero(np.arange(self.count) // size % count == index))

    def dataset(self, block: int) -> tf.data.Dataset:
        """Returns the elements, as tuples of their components, from a source of one element for each block of `block`
        examples or for each batch: a worker gets whole blocks, so that all of its batches but one are full."""
        if self.is_counter:
            return self._mapped(tf.data.Dataset.range(_ENDLESS), lambda index: self.example(index[tf.newaxis]))
        lengths = (self.rows[:, :, 0] != PADDING).sum(axis=1)
        is_regular = (lengths[:-1] == self.rows.shape[1]).all()
        if self.group is None or (is_regular and not self.is_window):
            block = block if self.group is None else self.rows.shape[1]
            data = self._mapped(_blocks(self.examples(), block), self.example)
            data = data if self.group is None else self.group(data)
        else:
            numbers, group = (tf.constant(self.rows), tf.constant(lengths)), self.group

            @tf.autograph.experimental.do_not_convert
            def one(index: tf.Tensor) -> tf.data.Dataset:
                rows = tf.data.Dataset.from_tensor_slices(numbers[0][index, : numbers[1][index]])
                return group(self._mapped(rows, self.example))

            data = tf.data.Dataset.range(len(self.rows)).flat_map(one)
        for function in self.after:
            data = self._mapped(data, lambda *parts, function=function: function(parts))
        return data

    def _mapped(self, data: tf.data.Dataset, function: Callable[..., Components]) -> tf.data.Dataset:
        as_tuple = tf.autograph.experimental.do_not_convert(lambda *parts: tuple(function(*parts)))
        return data.map(as_tuple, num_parallel_calls=tf.data.AUTOTUNE if self.is_parallel else None)


def _blocks(rows: np.ndarray, size: int) -> tf.data.Dataset:
    """The rows, int64 [n, width], from a source that has one element for each block of `size` rows."""
    columns, places = _distinct(rows)
    numbers, count, width = tf.constant(columns), *rows.shape

    @tf.autograph.experimental.do_not_convert
    def block(index: tf.Tensor) -> tf.data.Dataset:
        begin = index * size
        part = numbers[begin : tf.minimum(begin + size, count)]
        return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(tf.gather(part, places, axis=1), (None, width)))

    return tf.data.Dataset.range(-(-count // size)).flat_map(block)


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """The columns without copies of one another, and the place of each column among these."""
    kept: list[int] = []
    places = []
    for column in range(rows.shape[1]):
        same = [place for place, other in enumerate(kept) if (rows[:, other] == rows[:, column]).all()]
        places.append(same[0] if same else len(kept))
        if not same:
            kept.append(column)
    return rows[:, kept], places


def grouped(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows, int64 [n, width], in groups: [groups, size, width]."""
    padding = np.full((-len(rows) % size, rows.shape[1]), PADDING, np.int64)
    return np.concatenate([rows, padding]).reshape(-1, size, rows.shape[1])


def counted(count: int) -> np.ndarray:
    check_size(count)
    return np.arange(count, dtype=np.int64).reshape(-1, 1, 1)


def check_size(indices: int) -> None:
    if indices > MAX_INDICES:
        raise NotIndexed(f"{indices} indices, which are more than {MAX_INDICES}")
